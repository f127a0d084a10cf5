-- The nodes that are alive and how many slots each of them reads.
SELECT n.incarnation, n.node, n.version, n.started_at, n.lease_until, count(s.slot) AS slot_count
FROM timebell.nodes n LEFT JOIN timebell.slots s ON s.owner = n.incarnation
WHERE n.lease_until > coalesce(:lease_now::timestamptz, now())
GROUP BY n.incarnation
ORDER BY n.node, n.incarnation
