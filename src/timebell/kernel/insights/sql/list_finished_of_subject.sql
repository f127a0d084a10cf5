-- The jobs about one subject that came to an end, the last enqueued first or the first, each with the last thing that
-- the log says of it. Of a subject with more log than that, the newest entries are looked at.
SELECT * FROM (
    SELECT DISTINCT ON (l.id) l.*
    FROM (
        SELECT l.id, l.tenant, l.queue, l.kind, l.subject, l.key, l.step, l.version, l.attempt, l.due_at, l.started_at,
            l.finished_at, l.logged_at, l.correlation_id, l.state, l.reason, l.error_class, l.error
        FROM timebell.job_log l
        WHERE l.tenant = :tenant::text AND l.subject = :subject::text
        ORDER BY l.logged_at DESC, l.id DESC, l.version DESC LIMIT :look_max::integer
    ) l
    ORDER BY l.id DESC, l.version DESC, l.state = 'pending', l.logged_at DESC
) f
WHERE f.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND f.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND f.state <> 'pending' AND (:state::text IS NULL OR f.state = :state::text)
    AND (:kind::text IS NULL OR f.kind = :kind::text) AND (:queue::text IS NULL OR f.queue = :queue::text)
    AND (:key::text IS NULL OR f.key = :key::text)
ORDER BY CASE WHEN :oldest_first::boolean THEN f.id END, f.id DESC LIMIT :limit::integer + 1
