-- What a tenant has in each queue: due and waiting, started, parked, and not due yet. Its jobs are looked at from the first
-- enqueued on, and only so many; read_count says how many. BETWEEN
-- as in list_unfinished.
WITH looked_at AS MATERIALIZED (
    SELECT j.queue, j.lane, j.run_at, j.started_by IS NOT NULL AS is_started,
        j.run_at <= (SELECT coalesce(:now::timestamptz, now())) AS is_due,
        j.due_at <= (SELECT coalesce(:now::timestamptz, now())) AND lane < 2
            AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()) + interval '2 minutes') AS is_overdue
    FROM timebell.jobs j
    WHERE j.tenant BETWEEN :tenant::text AND :tenant::text
    ORDER BY j.id LIMIT :rows_max::integer
), counted AS (
    SELECT queue,
        count(*) FILTER (WHERE is_due AND NOT is_started AND lane < 2) AS due_count,
        count(*) FILTER (WHERE is_due AND is_started) AS started_count,
        count(*) FILTER (WHERE is_due AND NOT is_started AND lane = 2) AS parked_count,
        count(*) FILTER (WHERE NOT is_due) AS future_count,
        count(*) FILTER (WHERE NOT is_due AND is_overdue) AS retrying_count,
        min(run_at) FILTER (WHERE is_due AND NOT is_started AND lane < 2) AS oldest_due_at
    FROM looked_at
    GROUP BY queue
)
SELECT coalesce(q.name, c.queue) AS queue, coalesce(c.due_count, 0) AS due_count,
    coalesce(c.started_count, 0) AS started_count, coalesce(c.parked_count, 0) AS parked_count,
    coalesce(c.future_count, 0) AS future_count, coalesce(c.retrying_count, 0) AS retrying_count, c.oldest_due_at,
    greatest(0, extract(epoch FROM coalesce(:now::timestamptz, now()) - c.oldest_due_at))::double precision
        AS lateness_seconds,
    (SELECT count(*) FROM looked_at) AS read_count
FROM timebell.queues q FULL JOIN counted c ON c.queue = q.name
ORDER BY 1
