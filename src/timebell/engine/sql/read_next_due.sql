-- The next instant after this one at which something becomes due, for a clock that goes from instant to instant.
SELECT min(j.run_at) AS run_at
FROM generate_series(0, 255) AS s(slot), (VALUES (0), (1)) AS l(lane)
CROSS JOIN LATERAL (
    SELECT j.run_at FROM timebell.jobs j
    WHERE j.slot = s.slot::smallint AND j.lane = l.lane::smallint AND j.run_at > :after::timestamptz
    ORDER BY j.run_at LIMIT 1
) j
