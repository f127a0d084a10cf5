-- With what is frozen for it, which is the sum of its entries in the ledger.
SELECT d.id, d.booking_id, d.time_log_id, d.dispute_option, d.status, d.reason, d.filed_by, d.dispute_filed_at,
    d.timeout_expiration_time, d.timed_out_at, d.resolved_at, d.resolved_by, d.settlement::text AS settlement,
    d.proposals::text AS proposals, d.created_at, d.updated_at,
    (SELECT coalesce(sum(CASE 'frozen' WHEN e.to_place THEN e.amount WHEN e.from_place THEN -e.amount ELSE 0 END), 0)::bigint
        FROM marketplace.ledger_entries e WHERE e.tenant = :tenant::text AND e.dispute_id = d.id) AS frozen
FROM marketplace.disputes d
WHERE d.tenant = :tenant::text AND d.id = :id::uuid
