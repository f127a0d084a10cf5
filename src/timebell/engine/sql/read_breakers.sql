SELECT destination, failure_count, open_seconds, open_until, probed_by IS NOT NULL AS is_probed
FROM timebell.breakers ORDER BY destination LIMIT 10000
