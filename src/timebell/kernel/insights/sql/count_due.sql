-- What is due in each queue: waiting, started or parked. It is read as the engine reads, from the longest waiting
-- on in each slot and lane, and only so many rows, whoever's they are; read_count says how many.
WITH due AS MATERIALIZED (
    SELECT j.* FROM timebell.slots s
    CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l(lane)
    CROSS JOIN LATERAL (
        SELECT j.queue, j.lane, j.run_at, j.started_by IS NOT NULL AS is_started FROM timebell.jobs j
        WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()))
        ORDER BY j.run_at, j.id LIMIT :slot_rows_max::integer
    ) j
    LIMIT :rows_max::integer
), counted AS (
    SELECT queue,
        count(*) FILTER (WHERE NOT is_started AND lane < 2) AS due_count,
        count(*) FILTER (WHERE is_started) AS started_count,
        count(*) FILTER (WHERE NOT is_started AND lane = 2) AS parked_count,
        min(run_at) FILTER (WHERE NOT is_started AND lane < 2) AS oldest_due_at
    FROM due
    GROUP BY queue
)
SELECT coalesce(q.name, c.queue) AS queue, coalesce(c.due_count, 0) AS due_count,
    coalesce(c.started_count, 0) AS started_count, coalesce(c.parked_count, 0) AS parked_count, c.oldest_due_at,
    greatest(0, extract(epoch FROM coalesce(:now::timestamptz, now()) - c.oldest_due_at))::double precision
        AS lateness_seconds,
    (SELECT count(*) FROM due) AS read_count
FROM timebell.queues q FULL JOIN counted c ON c.queue = q.name
ORDER BY 1
