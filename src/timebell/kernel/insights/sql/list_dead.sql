-- The dead jobs of a tenant, the last that died first. Only so many rows are looked at; the one at which looking
-- stopped comes back too, so that the next page can go on from there.
SELECT * FROM (
    SELECT d.id, d.tenant, d.queue, d.kind, d.subject, d.key, d.due_at, d.expires_at, d.attempt, d.max_attempts,
        d.crash_count, d.correlation_id, d.created_at, d.reason, d.error_class, d.error, d.fingerprint, d.died_at,
        d.payload,
        (:kind::text IS NULL OR d.kind = :kind::text) AND (:queue::text IS NULL OR d.queue = :queue::text)
            AND (:subject::text IS NULL OR d.subject = :subject::text) AND (:key::text IS NULL OR d.key = :key::text)
            AS is_match,
        row_number() OVER (ORDER BY d.died_at DESC, d.id DESC) = :look_max::integer AS is_end
    FROM timebell.dead_jobs d
    WHERE d.tenant BETWEEN :tenant::text AND :tenant::text AND (d.died_at, d.id) < (
        (SELECT coalesce(:before_at::timestamptz, 'infinity')),
        (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')))
    ORDER BY d.died_at DESC, d.id DESC LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY died_at DESC, id DESC LIMIT :limit::integer + 1
