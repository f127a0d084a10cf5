-- The provider's name for the charge of a payment.
SELECT p.provider_intent_id FROM marketplace.pending_payments p WHERE p.tenant = :tenant::text AND p.id = :id::uuid
