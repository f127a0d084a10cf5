-- A calendar of a person, and what it said.
WITH gone AS (
    DELETE FROM meetings.calendar_imports
    WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND id = :id::uuid RETURNING id
), freed AS (
    DELETE FROM meetings.imported_busy WHERE tenant = :tenant::text AND import_id IN (SELECT id FROM gone)
)
SELECT id FROM gone
