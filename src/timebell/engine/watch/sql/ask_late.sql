-- How long the job has waited that is due longest, by the queues of those that lead in each slot and lane; what is held on
-- purpose does not count.
SELECT j.queue, max(extract(epoch FROM coalesce(:now::timestamptz, now()) - j.run_at))::double precision AS seconds
FROM timebell.slots s
CROSS JOIN (VALUES (0::smallint), (1::smallint)) AS l(lane)
CROSS JOIN LATERAL (
    SELECT j.queue, j.run_at FROM timebell.jobs j
    WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()))
        AND j.started_by IS NULL
    ORDER BY j.run_at, j.id LIMIT 1
) j
GROUP BY j.queue ORDER BY seconds DESC, j.queue LIMIT :limit::integer
