-- Jobs that are due and of a kind that no living node has a handler for, by kind. Where there is no such kind no job
-- is looked at, and else only so many of each slot and lane, from the longest waiting on.
WITH left_kinds AS MATERIALIZED (
    SELECT k.kind FROM timebell.kinds k
    WHERE NOT EXISTS (
        SELECT FROM timebell.nodes n
        WHERE n.lease_until > coalesce(:lease_now::timestamptz, now())
            AND (n.kinds IS NULL OR k.kind = ANY(n.kinds)))
), due AS MATERIALIZED (
    SELECT j.kind FROM timebell.slots s
    CROSS JOIN (VALUES (0::smallint), (1::smallint)) AS l(lane)
    CROSS JOIN LATERAL (
        SELECT j.kind FROM timebell.jobs j
        WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()))
            AND j.started_by IS NULL
        ORDER BY j.run_at, j.id LIMIT :slot_rows_max::integer
    ) j
    WHERE EXISTS (SELECT FROM left_kinds)
)
SELECT d.kind, count(*) AS due_count FROM due d JOIN left_kinds USING (kind)
GROUP BY d.kind ORDER BY due_count DESC, d.kind LIMIT :kinds_max::integer
