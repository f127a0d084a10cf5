-- The entries of a booking in the order of their writing, up to an instant.
SELECT e.id, e.booking_id, e.at, e.type, e.from_place, e.to_place, e.amount, e.currency, e.time_log_id, e.dispute_id,
    e.payment_id, e.provider_ref
FROM marketplace.ledger_entries e
WHERE e.tenant = :tenant::text AND e.booking_id = :booking_id::uuid
    AND (e.at, e.id) > (coalesce(:after_at::timestamptz, '-infinity'),
        coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND e.at <= coalesce(:at::timestamptz, 'infinity')
ORDER BY e.at, e.id LIMIT :limit::integer + 1
