-- The provider's name for a charge, once it is known.
UPDATE marketplace.pending_payments p
SET provider_intent_id = :provider_intent_id::text, updated_at = coalesce(:now::timestamptz, now())
WHERE p.tenant = :tenant::text AND p.id = :id::uuid AND p.provider_intent_id IS NULL
