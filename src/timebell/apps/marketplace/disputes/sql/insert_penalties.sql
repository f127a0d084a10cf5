INSERT INTO marketplace.dispute_penalties (tenant, dispute_id, time_log_id, amount)
SELECT :tenant::text, :dispute_id::uuid, n.time_log_id, n.amount
FROM unnest(:time_log_ids::uuid[], :amounts::bigint[]) AS n(time_log_id, amount)
