SELECT o.id, o.tenant, o.booking_id, o.sort, o.payment_id, o.amount, o.currency, o.reason, o.state, o.idempotency_key,
    o.attempt, o.provider_ref, o.correlation_id, o.created_at, o.updated_at, l.time_log_ids, l.amounts
FROM marketplace.payouts o
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(l.time_log_id ORDER BY l.time_log_id), '{}') AS time_log_ids,
        coalesce(array_agg(l.amount ORDER BY l.time_log_id), '{}') AS amounts
    FROM marketplace.payout_lines l WHERE l.tenant = :tenant::text AND l.payout_id = o.id
) l
WHERE o.tenant = :tenant::text AND o.id = :id::uuid
