-- When the planner must look next.
SELECT plan_at FROM timebell.schedules WHERE plan_at IS NOT NULL ORDER BY plan_at LIMIT 1
