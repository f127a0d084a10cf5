-- Started and not begun: the mark is taken back as if it had never been made. Those that come back still bear it, because
-- a caller holds them.
WITH back AS (
    UPDATE timebell.jobs j
    SET started_by = NULL, started_at = NULL, attempt = j.attempt - 1, version = j.version + 1
    FROM unnest(:ids::uuid[], :versions::integer[]) AS g(id, version)
    WHERE j.id = g.id AND j.version = g.version AND j.started_by = :incarnation::bigint
        AND j.id = ANY(ARRAY(
            SELECT f.id FROM timebell.jobs f WHERE f.id = ANY(:ids::uuid[]) ORDER BY f.id FOR UPDATE SKIP LOCKED))
    RETURNING j.id
)
SELECT j.id FROM timebell.jobs j JOIN unnest(:ids::uuid[], :versions::integer[]) AS g(id, version) ON g.id = j.id
WHERE j.id = ANY(:ids::uuid[]) AND j.version = g.version AND j.started_by = :incarnation::bigint
    AND NOT EXISTS (SELECT FROM back WHERE back.id = j.id)
