INSERT INTO marketplace.simulator_calls (tenant, id, at, call, key, amount, currency, booking_id, outcome)
VALUES (:tenant::text, :id::uuid, coalesce(:now::timestamptz, clock_timestamp()), :call::text, :key::text, :amount::bigint,
    :currency::text, :booking_id::uuid, :outcome::text)
