-- Those that are open for longest from now on come first: of more than are wanted, the rest is nearest to its end.
SELECT destination, failure_count, open_seconds, open_until, probed_by IS NOT NULL AS is_probed
FROM timebell.breakers ORDER BY open_until DESC LIMIT :limit::integer
