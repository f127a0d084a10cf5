-- Who holds and wants how many permits of a queue, for whoever has locked them. Those of a life that is over count until
-- nothing can run under them any more.
SELECT coalesce(n.incarnation, p.incarnation) AS incarnation, n.incarnation IS NOT NULL AS is_alive,
    coalesce(p.held, 0) AS held, coalesce(p.wanted, 0) AS wanted
FROM timebell.nodes n
FULL JOIN (SELECT incarnation, held, wanted, free_at FROM timebell.permits WHERE queue = :queue::text) p
    ON p.incarnation = n.incarnation
WHERE n.incarnation IS NOT NULL OR p.free_at > coalesce(:lease_now::timestamptz, now())
ORDER BY 1
