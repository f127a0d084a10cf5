-- When the loops of the nodes that live made their last pass, as each said with its last beat.
SELECT coalesce(:lease_now::timestamptz, now()) AS now, max(n.passed_at) AS passed_at, max(n.planned_at) AS planned_at
FROM timebell.nodes n WHERE n.lease_until > coalesce(:lease_now::timestamptz, now())
