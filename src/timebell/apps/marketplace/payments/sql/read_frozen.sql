-- What is frozen for a dispute, by the shift and the payment that it came from.
SELECT e.time_log_id, e.payment_id,
    sum(CASE 'frozen' WHEN e.to_place THEN e.amount WHEN e.from_place THEN -e.amount ELSE 0 END)::bigint AS amount
FROM marketplace.ledger_entries e
WHERE e.tenant = :tenant::text AND e.dispute_id = :dispute_id::uuid
GROUP BY e.time_log_id, e.payment_id
ORDER BY e.time_log_id, e.payment_id
