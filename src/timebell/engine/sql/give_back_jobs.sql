-- Started and not begun: the mark is taken back as if it had never been made.
UPDATE timebell.jobs j
SET started_by = NULL, started_at = NULL, attempt = j.attempt - 1, version = j.version + 1
FROM unnest(:ids::uuid[], :versions::integer[]) AS g(id, version)
WHERE j.id = g.id AND j.version = g.version AND j.started_by = :incarnation::bigint
RETURNING j.id
