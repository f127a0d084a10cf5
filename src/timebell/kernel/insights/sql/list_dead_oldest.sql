-- The dead jobs of a tenant, or those that died of one cause, the first that died first; looked at as in list_dead.
WITH looked_at AS (
    (SELECT d.id, d.died_at, d.kind, d.queue, d.subject, d.key FROM timebell.dead_jobs d
    WHERE :fingerprint::text IS NULL AND d.tenant BETWEEN :tenant::text AND :tenant::text AND (d.died_at, d.id) > (
        (SELECT coalesce(:after_at::timestamptz, '-infinity')),
        (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')))
    ORDER BY d.died_at, d.id LIMIT :look_max::integer)
    UNION ALL
    (SELECT d.id, d.died_at, d.kind, d.queue, d.subject, d.key FROM timebell.dead_jobs d
    WHERE d.tenant BETWEEN :tenant::text AND :tenant::text AND d.fingerprint = :fingerprint::text AND (d.died_at, d.id) > (
        (SELECT coalesce(:after_at::timestamptz, '-infinity')),
        (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')))
    ORDER BY d.died_at, d.id LIMIT :look_max::integer)
), marked AS (
    SELECT id, died_at,
        (:kind::text IS NULL OR kind = :kind::text) AND (:queue::text IS NULL OR queue = :queue::text)
            AND (:subject::text IS NULL OR subject = :subject::text) AND (:key::text IS NULL OR key = :key::text)
            AS is_match,
        row_number() OVER (ORDER BY died_at, id) = :look_max::integer AS is_end
    FROM looked_at
), found AS MATERIALIZED (
    SELECT id, is_match, is_end FROM marked
    WHERE is_match OR is_end ORDER BY died_at, id LIMIT :limit::integer + 1
)
SELECT id, d.tenant, d.queue, d.kind, d.subject, d.key, d.due_at, d.expires_at, d.attempt, d.max_attempts,
    d.crash_count, d.correlation_id, d.created_at, d.reason, d.error_class, d.error, d.fingerprint, d.died_at,
    d.payload, is_match, is_end
FROM found JOIN timebell.dead_jobs d USING (id)
ORDER BY d.died_at, id
