-- Where something becomes due next after this instant, for a clock that goes from instant to instant: the earliest rows.
WITH first AS MATERIALIZED (
    SELECT s.slot::smallint AS slot, l.lane::smallint AS lane, j.run_at
    FROM generate_series(0, 255) AS s(slot), (VALUES (0), (1)) AS l(lane)
    CROSS JOIN LATERAL (
        SELECT j.run_at FROM timebell.jobs j
        WHERE j.slot = s.slot::smallint AND j.lane = l.lane::smallint AND j.run_at > :after::timestamptz
        ORDER BY j.run_at LIMIT 1
    ) j
)
SELECT slot, lane, run_at FROM first WHERE run_at = (SELECT min(run_at) FROM first)
