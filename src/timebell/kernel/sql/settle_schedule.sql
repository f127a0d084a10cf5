-- Where a schedule stands after it was planned by hand: its state, its cursor, and when the planner looks again.
UPDATE timebell.schedules
SET state = :state::text, state_reason = :state_reason::text, planned_until = :planned_until::timestamptz,
    plan_at = :plan_at::timestamptz, timezone_version = :timezone_version::text, revision = :revision::integer,
    updated_at = :at::timestamptz
WHERE id = :id::uuid AND tenant = :tenant::text
RETURNING id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at
