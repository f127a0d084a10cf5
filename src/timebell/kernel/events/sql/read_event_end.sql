-- Where a tenant's events end: the last one that nothing can come before any more, the number below which that holds, and
-- the number that no transaction of this server has reached.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS settled_below,
    pg_snapshot_xmax(pg_current_snapshot())::text AS given_below, last.number, last.id
FROM (VALUES (true)) AS always(is_there)
LEFT JOIN LATERAL (
    SELECT e.written_in::text AS number, e.id
    FROM timebell.events e
    WHERE e.tenant = :tenant::text AND e.written_in < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY e.written_in DESC, e.id DESC LIMIT 1
) AS last ON true
