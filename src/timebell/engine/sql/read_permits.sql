-- Who holds and wants how many permits of a queue; the queue's row is locked so that one node at a time decides.
WITH locked AS (
    SELECT name, concurrency FROM timebell.queues WHERE name = :queue::text AND concurrency IS NOT NULL FOR UPDATE
)
SELECT l.concurrency, n.incarnation, coalesce(p.held, 0) AS held, coalesce(p.wanted, 0) AS wanted
FROM locked l
CROSS JOIN timebell.nodes n
LEFT JOIN timebell.permits p ON p.queue = l.name AND p.incarnation = n.incarnation
ORDER BY n.incarnation
