-- Nothing comes back where the period is being paid for, or was: then nobody charges it again.
INSERT INTO marketplace.pending_payments (tenant, id, booking_id, period_start, period_end, amount, currency, status, provider,
    idempotency_key, attempt, correlation_id, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :booking_id::uuid, :period_start::timestamptz, :period_end::timestamptz, :amount::bigint,
    :currency::text, 'Pending', :provider::text, :idempotency_key::text, :attempt::int, :correlation_id::text,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
ON CONFLICT DO NOTHING
RETURNING id
