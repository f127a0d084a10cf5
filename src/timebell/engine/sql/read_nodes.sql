-- Who lives. A life whose lease has run out counts until somebody buries it, so that all nodes see one truth.
-- What a life can run never changes, so it is told once. No lease lasts ten minutes longer than now, unless the clock
-- was set back since it was written.
SELECT incarnation,
    CASE WHEN lease_until > coalesce(:lease_now::timestamptz, now()) + interval '10 minutes' THEN lease_until END
        AS far_until,
    survived,
    CASE WHEN incarnation <> ALL(:known::bigint[]) THEN kinds END AS kinds
FROM timebell.nodes ORDER BY incarnation
