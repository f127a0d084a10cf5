INSERT INTO marketplace.payment_lines (tenant, payment_id, time_log_id, amount)
SELECT :tenant::text, :payment_id::uuid, line.time_log_id, line.amount
FROM unnest(:time_log_ids::uuid[], :amounts::bigint[]) AS line (time_log_id, amount)
