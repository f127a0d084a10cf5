-- Jobs that were due before and are tried again within two minutes, by queue. Of what comes next only so many rows are
-- read in each slot and lane, whoever's they are.
WITH soon AS MATERIALIZED (
    SELECT j.* FROM timebell.slots s
    CROSS JOIN (VALUES (0::smallint), (1::smallint)) AS l(lane)
    CROSS JOIN LATERAL (
        SELECT j.queue, j.due_at <= (SELECT coalesce(:now::timestamptz, now())) AS is_overdue FROM timebell.jobs j
        WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at > (SELECT coalesce(:now::timestamptz, now()))
            AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()) + interval '2 minutes')
        ORDER BY j.run_at, j.id LIMIT :slot_rows_max::integer
    ) j
    LIMIT :rows_max::integer
)
SELECT queue, count(*) AS retrying_count FROM soon WHERE is_overdue GROUP BY queue ORDER BY queue
