SELECT destination, failure_count, open_seconds, open_until FROM timebell.breakers ORDER BY destination LIMIT 10000
