-- One job, wherever it is: unfinished, dead and waiting for an operator, or only in the log, whose last entry says
-- what became of it.
SELECT 1 AS place, j.id, j.tenant, j.queue, j.kind, j.subject, j.key, j.step, j.revision, j.attempt, j.max_attempts,
    j.due_at, j.run_at, j.expires_at, j.created_at, j.started_at, NULL::timestamptz AS finished_at,
    j.cancel_requested_at, j.correlation_id, CASE WHEN j.started_by IS NULL THEN 'pending' ELSE 'running' END AS state,
    CASE WHEN j.started_by IS NULL AND j.lane = 2 THEN 'parked' END AS reason, NULL AS error_class, NULL AS error,
    j.started_by AS incarnation, n.node
FROM timebell.jobs j LEFT JOIN timebell.nodes n ON n.incarnation = j.started_by
WHERE j.id = :id::uuid AND j.tenant = :tenant::text
UNION ALL
SELECT 2, d.id, d.tenant, d.queue, d.kind, d.subject, d.key, NULL, NULL, d.attempt, d.max_attempts, d.due_at, NULL,
    d.expires_at, d.created_at, NULL, d.died_at, NULL, d.correlation_id, 'dead', d.reason, d.error_class, d.error,
    NULL, NULL
FROM timebell.dead_jobs d
WHERE d.id = :id::uuid AND d.tenant = :tenant::text
UNION ALL
(
    SELECT 3, l.id, l.tenant, l.queue, l.kind, l.subject, l.key, l.step, NULL, l.attempt, NULL, l.due_at, NULL,
        NULL, NULL, l.started_at, l.finished_at, NULL, l.correlation_id, l.state, l.reason, l.error_class, l.error,
        l.node, n.node
    FROM timebell.job_log l LEFT JOIN timebell.nodes n ON n.incarnation = l.node
    WHERE l.id = :id::uuid AND l.tenant = :tenant::text
    ORDER BY l.version DESC, l.state = 'pending', l.logged_at DESC LIMIT 1
)
ORDER BY place LIMIT 1
