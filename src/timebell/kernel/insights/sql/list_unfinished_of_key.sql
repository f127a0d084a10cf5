-- The unfinished jobs that a key stands for, at most one of each kind.
SELECT j.id, j.tenant, j.queue, j.kind, j.subject, j.key, j.step, j.revision, j.attempt, j.max_attempts, j.due_at,
    j.run_at, j.expires_at, j.created_at, j.started_at, j.cancel_requested_at, j.correlation_id,
    CASE WHEN j.started_by IS NULL THEN 'pending' ELSE 'running' END AS state,
    CASE WHEN j.started_by IS NULL AND j.lane = 2 THEN 'parked' END AS reason
FROM timebell.kinds k
CROSS JOIN LATERAL (
    SELECT held.job_id FROM timebell.job_keys held
    WHERE held.tenant = :tenant::text AND held.kind = k.kind AND held.key = :key::text LIMIT 1
) held
JOIN timebell.jobs j ON j.id = held.job_id AND j.tenant = :tenant::text
WHERE (:kind::text IS NULL OR k.kind = :kind::text) AND (:queue::text IS NULL OR j.queue = :queue::text)
    AND (:subject::text IS NULL OR j.subject = :subject::text)
    AND (:state::text IS NULL OR (j.started_by IS NULL) = (:state::text = 'pending'))
    AND j.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND j.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY CASE WHEN :oldest_first::boolean THEN j.id END, j.id DESC LIMIT :limit::integer + 1
