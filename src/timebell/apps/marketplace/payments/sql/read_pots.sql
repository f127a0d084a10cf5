-- What each payment holds for shifts, and what is about to leave of it.
SELECT p.time_log_id, p.payment_id, c.provider_ref AS charge_ref, p.charged, p.held, p.frozen, p.released, p.refunded,
    coalesce(o.leaving, 0)::bigint AS leaving
FROM (
    SELECT e.time_log_id, e.payment_id,
        coalesce(sum(e.amount) FILTER (WHERE e.type = 'hold'), 0)::bigint AS charged,
        (coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'held'), 0)
            - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'held'), 0))::bigint AS held,
        (coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'frozen'), 0)
            - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'frozen'), 0))::bigint AS frozen,
        coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'lender'), 0)::bigint AS released,
        coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'card'), 0)::bigint AS refunded
    FROM marketplace.ledger_entries e
    WHERE e.tenant = :tenant::text AND e.time_log_id = ANY(:time_log_ids::uuid[])
    GROUP BY e.time_log_id, e.payment_id
) p
JOIN marketplace.ledger_entries c ON c.tenant = :tenant::text AND c.payment_id = p.payment_id AND c.type = 'charge'
LEFT JOIN LATERAL (
    SELECT sum(l.amount) AS leaving
    FROM marketplace.payout_lines l
    JOIN marketplace.payouts o ON o.tenant = :tenant::text AND o.id = l.payout_id
    WHERE l.tenant = :tenant::text AND l.time_log_id = p.time_log_id AND o.payment_id = p.payment_id
        AND o.state IN ('pending', 'sending')
) o ON true
ORDER BY p.time_log_id, p.payment_id
