-- How many of its intervals each loop of each living node has made no pass. A beat is told every few seconds, so none is
-- taken to be shorter than :least_seconds.
SELECT n.node, l.loop, extract(epoch FROM t.now - l.passed_at)::double precision AS seconds,
    (extract(epoch FROM t.now - l.passed_at) / greatest(l.every, :least_seconds::double precision))::double precision
        AS intervals
FROM timebell.nodes n
CROSS JOIN (SELECT coalesce(:lease_now::timestamptz, now()) AS now) t
CROSS JOIN LATERAL (VALUES ('sweep', n.passed_at, :sweep_seconds::double precision),
    ('planner', n.planned_at, :plan_seconds::double precision)) AS l(loop, passed_at, every)
WHERE n.lease_until > t.now AND l.passed_at IS NOT NULL
ORDER BY intervals DESC, n.node, l.loop LIMIT :limit::integer
