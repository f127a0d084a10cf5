-- How far the clock of each living node is from the database's; the largest first.
SELECT n.node, n.clock_off_seconds AS seconds
FROM timebell.nodes n
WHERE n.lease_until > coalesce(:lease_now::timestamptz, now()) AND n.clock_off_seconds IS NOT NULL
ORDER BY abs(n.clock_off_seconds) DESC, n.node LIMIT :limit::integer
