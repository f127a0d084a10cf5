-- The shifts that a payment was held for.
SELECT DISTINCT e.time_log_id FROM marketplace.ledger_entries e
WHERE e.tenant = :tenant::text AND e.payment_id = :payment_id::uuid AND e.type = 'hold'
