-- What is not due yet in each queue, for a table that is small enough to be counted; read_count says how many rows
-- were read, whoever's they are.
WITH future AS MATERIALIZED (
    SELECT j.* FROM timebell.slots s
    CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l(lane)
    CROSS JOIN LATERAL (
        SELECT j.queue FROM timebell.jobs j
        WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at > (SELECT coalesce(:now::timestamptz, now()))
        ORDER BY j.run_at, j.id LIMIT :rows_max::integer
    ) j
    LIMIT :rows_max::integer
)
SELECT queue, count(*) AS future_count, (SELECT count(*) FROM future) AS read_count
FROM future
GROUP BY queue
ORDER BY queue
