-- The unfinished jobs of a tenant in due order, for a test's database, where there are few.
SELECT j.id, j.kind, j.queue, j.subject, j.key, j.step, j.due_at, j.run_at, j.expires_at, j.attempt, j.correlation_id,
    j.payload::text, CASE WHEN j.started_by IS NULL THEN 'pending' ELSE 'running' END AS state
FROM timebell.jobs j
WHERE j.tenant = :tenant::text
ORDER BY j.due_at, j.id LIMIT :limit::integer
