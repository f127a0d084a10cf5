-- The events of a tenant, the last first. A subject or a correlation id leads to them by an index; by name alone, all are
-- looked through, no more than look_max at once.
WITH looked_at AS (
    (SELECT e.id, e.name, e.subject FROM timebell.events e
    WHERE :subject::text IS NULL AND :correlation_id::text IS NULL AND e.tenant BETWEEN :tenant::text AND :tenant::text
        AND e.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY e.id DESC LIMIT :look_max::integer)
    UNION ALL
    (SELECT e.id, e.name, e.subject FROM timebell.events e
    WHERE :correlation_id::text IS NULL AND e.tenant BETWEEN :tenant::text AND :tenant::text AND e.subject = :subject::text
        AND e.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY e.id DESC LIMIT :look_max::integer)
    UNION ALL
    (SELECT e.id, e.name, e.subject FROM timebell.events e
    WHERE e.tenant BETWEEN :tenant::text AND :tenant::text AND e.correlation_id = :correlation_id::text
        AND e.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY e.id DESC LIMIT :look_max::integer)
), marked AS (
    SELECT id, (:name::text IS NULL OR name = :name::text)
            AND (:subject::text IS NULL OR subject = :subject::text) AS is_match,
        row_number() OVER (ORDER BY id DESC) = :look_max::integer AS is_end
    FROM looked_at
), found AS MATERIALIZED (
    SELECT id, is_match, is_end FROM marked WHERE is_match OR is_end ORDER BY id DESC LIMIT :limit::integer + 1
)
SELECT id, e.name, e.subject, e.actor, e.data::text AS data, e.correlation_id, e.occurred_at, e.recorded_at,
    is_match, is_end
FROM found JOIN timebell.events e USING (id)
ORDER BY id DESC
