-- Since when the job that has waited longest has been due without being started; parked jobs wait on purpose.
SELECT min(j.run_at) AS oldest_due_at,
    greatest(0, extract(epoch FROM coalesce(:now::timestamptz, now()) - min(j.run_at)))::double precision
        AS lateness_seconds
FROM timebell.slots s
CROSS JOIN (VALUES (0::smallint), (1::smallint)) AS l(lane)
CROSS JOIN LATERAL (
    SELECT j.run_at FROM timebell.jobs j
    WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at <= coalesce(:now::timestamptz, now())
        AND j.started_by IS NULL
    ORDER BY j.run_at, j.id LIMIT 1
) j
