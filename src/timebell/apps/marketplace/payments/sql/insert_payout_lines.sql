INSERT INTO marketplace.payout_lines (tenant, payout_id, time_log_id, sort, amount)
SELECT :tenant::text, :payout_id::uuid, n.time_log_id, :sort::text, n.amount
FROM unnest(:time_log_ids::uuid[], :amounts::bigint[]) AS n(time_log_id, amount)
