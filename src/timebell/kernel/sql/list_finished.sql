-- The jobs of a tenant that came to an end, the last enqueued first, each with the last thing that the log says of
-- it; looked at as in list_unfinished. Versions tell what came last: logged_at is when a transaction began.
SELECT * FROM (
    SELECT f.*, row_number() OVER (ORDER BY f.id DESC) = :look_max::integer AS is_end,
        f.tenant = :tenant::text AND f.state <> 'pending' AND (:state::text IS NULL OR f.state = :state::text)
            AND (:kind::text IS NULL OR f.kind = :kind::text) AND (:queue::text IS NULL OR f.queue = :queue::text)
            AND (:key::text IS NULL OR f.key = :key::text) AS is_match
    FROM (
        SELECT DISTINCT ON (l.id) l.id, l.tenant, l.queue, l.kind, l.subject, l.key, l.step, l.attempt, l.due_at,
            l.started_at, l.finished_at, l.correlation_id, l.state, l.reason, l.error_class, l.error
        FROM timebell.job_log l
        WHERE l.id < coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        ORDER BY l.id DESC, l.version DESC, l.state = 'pending', l.logged_at DESC
    ) f
    ORDER BY f.id DESC LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY id DESC LIMIT :limit::integer + 1
