DELETE FROM marketplace.payout_lines l
WHERE l.tenant = :tenant::text AND l.payout_id = :payout_id::uuid AND l.time_log_id = ANY(:time_log_ids::uuid[])
