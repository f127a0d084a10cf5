INSERT INTO marketplace.payouts (tenant, id, booking_id, sort, payment_id, amount, currency, reason, idempotency_key,
    correlation_id, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :booking_id::uuid, :sort::text, :payment_id::uuid, :amount::bigint, :currency::text,
    :reason::text, :idempotency_key::text, :correlation_id::text, coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now()))
