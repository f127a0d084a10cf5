-- The schedules of a tenant, of one owner or about one subject, the oldest first. Each of the three has its index, and one
-- call looks at no more than look_max rows of it.
WITH looked_at AS (
    (SELECT id, state FROM timebell.schedules
    WHERE :owner::text IS NULL AND :subject::text IS NULL AND tenant BETWEEN :tenant::text AND :tenant::text
        AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY id LIMIT :look_max::integer)
    UNION ALL
    (SELECT id, state FROM timebell.schedules
    WHERE tenant BETWEEN :tenant::text AND :tenant::text AND owner = :owner::text
        AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY id LIMIT :look_max::integer)
    UNION ALL
    (SELECT id, state FROM timebell.schedules
    WHERE tenant BETWEEN :tenant::text AND :tenant::text AND subject = :subject::text
        AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY id LIMIT :look_max::integer)
), marked AS (
    SELECT id, (:state::text IS NULL OR state = :state::text) AS is_match,
        row_number() OVER (ORDER BY id) = :look_max::integer AS is_end
    FROM looked_at
), found AS MATERIALIZED (
    SELECT id, is_match, is_end FROM marked WHERE is_match OR is_end ORDER BY id LIMIT :limit::integer + 1
)
SELECT id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at, is_match, is_end
FROM found JOIN timebell.schedules USING (id)
ORDER BY id
