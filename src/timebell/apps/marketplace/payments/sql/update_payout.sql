-- Only from the state in which it was found.
UPDATE marketplace.payouts o
SET state = :state::text, amount = :amount::bigint, idempotency_key = :idempotency_key::text, attempt = :attempt::integer,
    provider_ref = :provider_ref::text, updated_at = coalesce(:now::timestamptz, now())
WHERE o.tenant = :tenant::text AND o.id = :id::uuid AND o.state = :from_state::text
RETURNING o.id
