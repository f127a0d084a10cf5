-- Where the money of a booking was at an instant.
SELECT coalesce(sum(e.amount) FILTER (WHERE e.type = 'charge'), 0)::bigint AS charged,
    (coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'held'), 0)
        - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'held'), 0))::bigint AS held,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'lender'), 0)::bigint AS released,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'card'), 0)::bigint AS refunded,
    (coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'frozen'), 0)
        - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'frozen'), 0))::bigint AS frozen
FROM marketplace.ledger_entries e
WHERE e.tenant = :tenant::text AND e.booking_id = :booking_id::uuid
    AND e.at <= coalesce(:at::timestamptz, 'infinity')
