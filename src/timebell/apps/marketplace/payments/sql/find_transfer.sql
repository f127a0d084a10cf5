-- The transfer that a shift is in; there is one at most.
SELECT l.payout_id FROM marketplace.payout_lines l
WHERE l.tenant = :tenant::text AND l.time_log_id = :time_log_id::uuid AND l.sort = 'transfer'
