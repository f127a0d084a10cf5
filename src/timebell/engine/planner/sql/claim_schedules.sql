-- Schedules that must be looked at, by their index. One that somebody edits is passed over: the edit plans it.
SELECT id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at,
    coalesce(:now::timestamptz, now()) AS now
FROM timebell.schedules
WHERE plan_at <= coalesce(:now::timestamptz, now())
ORDER BY plan_at, id LIMIT :limit::integer
FOR UPDATE SKIP LOCKED
