-- The shifts that a payment is for, as they are now.
SELECT s.id, s.status FROM marketplace.time_log s
JOIN marketplace.payment_lines l ON l.tenant = s.tenant AND l.time_log_id = s.id
WHERE l.tenant = :tenant::text AND l.payment_id = :payment_id::uuid AND s.status = ANY (:statuses::text[])
ORDER BY s.id
