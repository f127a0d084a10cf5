SELECT l.time_log_id, l.amount FROM marketplace.payment_lines l
WHERE l.tenant = :tenant::text AND l.payment_id = :payment_id::uuid
ORDER BY l.time_log_id
