-- What became of a payment that was pending. Nothing comes back where that was known before.
UPDATE marketplace.pending_payments p
SET status = :status::text, failure = :failure::text, settled_at = coalesce(:now::timestamptz, now()),
    provider_intent_id = coalesce(:provider_intent_id::text, p.provider_intent_id),
    updated_at = coalesce(:now::timestamptz, now())
WHERE p.tenant = :tenant::text AND p.id = :id::uuid AND p.status = 'Pending'
RETURNING p.id
