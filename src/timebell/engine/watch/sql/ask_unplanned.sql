-- Since when the planner should have looked at the schedule that waits longest for it.
SELECT s.id, extract(epoch FROM coalesce(:now::timestamptz, now()) - s.plan_at)::double precision AS seconds
FROM timebell.schedules s
WHERE s.plan_at <= coalesce(:now::timestamptz, now())
ORDER BY s.plan_at, s.id LIMIT 1
