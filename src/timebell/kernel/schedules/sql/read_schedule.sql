SELECT id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at
FROM timebell.schedules
WHERE id = :id::uuid AND tenant = :tenant::text
