-- The schedules of one owner; looked at as in list_schedules.
SELECT * FROM (
    SELECT id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
        on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision,
        parent_id, state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at,
        (:state::text IS NULL OR state = :state::text) AS is_match,
        row_number() OVER (ORDER BY id) = :look_max::integer AS is_end
    FROM timebell.schedules
    WHERE tenant = :tenant::text AND owner = :owner::text
        AND id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
    ORDER BY id LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY id LIMIT :limit::integer + 1
