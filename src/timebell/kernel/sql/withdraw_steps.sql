-- Steps that are no longer owed. They are not remembered: stated again, they are owed again.
WITH withdrawn AS (
    DELETE FROM timebell.jobs WHERE id = ANY(:ids::uuid[]) AND started_by IS NULL RETURNING *
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, actor, correlation_id, payload)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'cancelled', :reason::text, due_at,
        coalesce(:now::timestamptz, now()), :actor::text, correlation_id, payload
    FROM withdrawn
)
SELECT id FROM withdrawn
