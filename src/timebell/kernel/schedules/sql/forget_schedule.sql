-- A schedule that has ended, with its occurrences and what was changed about them.
WITH gone AS (
    DELETE FROM timebell.schedules WHERE tenant = :tenant::text AND id = :id::uuid AND state = 'ended' RETURNING id
), occurrences AS (
    DELETE FROM timebell.occurrences o USING gone g WHERE o.tenant = :tenant::text AND o.schedule_id = g.id
), overrides AS (
    DELETE FROM timebell.occurrence_overrides c USING gone g WHERE c.schedule_id = g.id
)
SELECT id FROM gone
