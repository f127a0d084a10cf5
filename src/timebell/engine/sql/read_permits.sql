-- Who holds and wants how many permits of a queue, for whoever has locked them.
SELECT n.incarnation, coalesce(p.held, 0) AS held, coalesce(p.wanted, 0) AS wanted
FROM timebell.nodes n
LEFT JOIN timebell.permits p ON p.queue = :queue::text AND p.incarnation = n.incarnation
ORDER BY n.incarnation
