-- The newest entries of the log about one job, in order. Every step of a job raises its version; logged_at is when
-- the transaction began, which for a caller's may be long before.
SELECT l.*, n.node
FROM (
    SELECT l.logged_at, l.version, l.attempt, l.state, l.reason, l.error_class, l.error, l.due_at, l.started_at,
        l.finished_at, l.actor, l.step, l.node AS incarnation
    FROM timebell.job_log l
    WHERE l.id = :id::uuid AND l.tenant = :tenant::text
    ORDER BY l.version DESC, l.state = 'pending', l.logged_at DESC LIMIT :rows_max::integer
) l
LEFT JOIN timebell.nodes n ON n.incarnation = l.incarnation
ORDER BY l.version, l.state <> 'pending', l.logged_at
