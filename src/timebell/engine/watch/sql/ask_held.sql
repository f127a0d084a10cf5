-- Which queues living nodes cannot serve, and what one of them says why.
SELECT split_part(h.held, ' ', 1) AS queue, min(substr(h.held, strpos(h.held, ' ') + 1)) AS reason,
    count(DISTINCT n.incarnation) AS node_count
FROM timebell.nodes n CROSS JOIN LATERAL unnest(n.held) AS h(held)
WHERE n.lease_until > coalesce(:lease_now::timestamptz, now())
GROUP BY 1 ORDER BY 1 LIMIT :limit::integer
