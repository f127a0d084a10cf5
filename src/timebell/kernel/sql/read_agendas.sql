-- As read_agenda, for many subjects.
SELECT subject, id, step, due_at, expires_at, version, started_by IS NOT NULL AS is_started,
    cancel_requested_at IS NOT NULL OR id IN (SELECT r.job_id FROM timebell.cancel_requests r) AS is_superseded,
    cancel_requested_at IS NOT NULL AS has_run, revision, kind, queue,
    payload::text, guard, priority, urgency, max_attempts, step_order
FROM timebell.jobs
WHERE tenant = :tenant::text AND subject = ANY(:subjects::text[]) AND step IS NOT NULL
ORDER BY id
FOR UPDATE
