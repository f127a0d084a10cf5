-- A key moves money once: whoever comes second gets nothing back, and reads what the first did.
INSERT INTO marketplace.simulator_movements (tenant, ref, call, key, fingerprint, amount, currency, booking_id, payment_id,
    of_ref, state, created_at)
VALUES (:tenant::text, :ref::text, :call::text, :key::text, :fingerprint::text, :amount::bigint, :currency::text,
    :booking_id::uuid, :payment_id::uuid, :of_ref::text, :state::text, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant, call, key) DO NOTHING
RETURNING ref
