-- The unfinished jobs about one subject, the last enqueued first; looked at as in list_unfinished.
SELECT * FROM (
    SELECT j.id, j.tenant, j.queue, j.kind, j.subject, j.key, j.step, j.revision, j.attempt, j.max_attempts, j.due_at,
        j.run_at, j.expires_at, j.created_at, j.started_at, j.cancel_requested_at, j.correlation_id,
        CASE WHEN j.started_by IS NULL THEN 'pending' ELSE 'running' END AS state,
        CASE WHEN j.started_by IS NULL AND j.lane = 2 THEN 'parked' END AS reason,
        (:kind::text IS NULL OR j.kind = :kind::text) AND (:queue::text IS NULL OR j.queue = :queue::text)
            AND (:state::text IS NULL OR (j.started_by IS NULL) = (:state::text = 'pending')) AS is_match,
        row_number() OVER (ORDER BY j.id DESC) = :look_max::integer AS is_end
    FROM timebell.jobs j
    WHERE j.tenant BETWEEN :tenant::text AND :tenant::text AND j.subject = :subject::text
        AND j.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY j.id DESC LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY id DESC LIMIT :limit::integer + 1
