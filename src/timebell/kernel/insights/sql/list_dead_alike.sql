-- The dead jobs of a tenant that died of one cause, the last that died first; looked at as in list_dead.
SELECT * FROM (
    SELECT d.id, d.tenant, d.queue, d.kind, d.subject, d.key, d.due_at, d.expires_at, d.attempt, d.max_attempts,
        d.crash_count, d.correlation_id, d.created_at, d.reason, d.error_class, d.error, d.fingerprint, d.died_at,
        d.payload,
        (:kind::text IS NULL OR d.kind = :kind::text) AND (:queue::text IS NULL OR d.queue = :queue::text) AS is_match,
        row_number() OVER (ORDER BY d.died_at DESC, d.id DESC) = :look_max::integer AS is_end
    FROM timebell.dead_jobs d
    WHERE d.tenant BETWEEN :tenant::text AND :tenant::text AND d.fingerprint = :fingerprint::text AND (d.died_at, d.id) < (
        (SELECT coalesce(:before_at::timestamptz, 'infinity')),
        (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')))
    ORDER BY d.died_at DESC, d.id DESC LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY died_at DESC, id DESC LIMIT :limit::integer + 1
