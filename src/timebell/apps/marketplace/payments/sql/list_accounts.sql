-- What is known about the money of some bookings, the oldest first, as of one instant: one statement sees one state, also
-- while payments go on.
SELECT b.id, b.currency,
    (SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY e.at, e.id), '[]') FROM marketplace.ledger_entries e
        WHERE e.tenant = :tenant::text AND e.booking_id = b.id)::text AS entries,
    (SELECT coalesce(jsonb_agg(to_jsonb(p) || jsonb_build_object('lines',
            (SELECT coalesce(jsonb_object_agg(l.time_log_id, l.amount), '{}') FROM marketplace.payment_lines l
                WHERE l.tenant = :tenant::text AND l.payment_id = p.id))), '[]')
        FROM marketplace.pending_payments p WHERE p.tenant = :tenant::text AND p.booking_id = b.id)::text AS payments,
    (SELECT coalesce(jsonb_agg(to_jsonb(o) || jsonb_build_object('lines',
            (SELECT coalesce(jsonb_object_agg(l.time_log_id, l.amount), '{}') FROM marketplace.payout_lines l
                WHERE l.tenant = :tenant::text AND l.payout_id = o.id))), '[]')
        FROM marketplace.payouts o WHERE o.tenant = :tenant::text AND o.booking_id = b.id)::text AS payouts,
    (SELECT coalesce(jsonb_agg(a.data), '[]') FROM marketplace.pending_payments p
        JOIN timebell.events a ON a.tenant = :tenant::text AND a.subject = 'payment:' || p.id AND a.name = 'payout.sent'
        WHERE p.tenant = :tenant::text AND p.booking_id = b.id)::text AS told,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'time_log_id', d.time_log_id, 'status', d.status, 'told',
            (SELECT coalesce(sum((a.data ->> 'frozen')::bigint), 0) FROM timebell.events a
                WHERE a.tenant = :tenant::text AND a.subject = 'dispute:' || d.id
                    AND a.name IN ('dispute.filed', 'dispute.frozen', 'dispute.timed_out')))), '[]')
        FROM marketplace.disputes d WHERE d.tenant = :tenant::text AND d.booking_id = b.id)::text AS disputes
FROM marketplace.staffing_bookings b
WHERE b.tenant = :tenant::text AND b.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY b.id LIMIT :limit::integer
