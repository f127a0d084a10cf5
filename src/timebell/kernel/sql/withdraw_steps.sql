-- Steps that are no longer owed. They are not remembered: stated again, they are owed again. What bears the flag of a
-- cancel ran when it got it, and is remembered: as cut off where its agenda had given it up before this one was set.
WITH withdrawn AS (
    DELETE FROM timebell.jobs WHERE id = ANY(:ids::uuid[]) AND started_by IS NULL RETURNING *
), remembered AS (
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
    SELECT w.tenant, w.subject, w.step, w.due_at, CASE WHEN w.revision < a.revision - 1 THEN 'cut_off' ELSE 'cancelled' END,
        w.id, coalesce(:now::timestamptz, now())
    FROM withdrawn w JOIN timebell.agendas a ON a.tenant = w.tenant AND a.subject = w.subject
    WHERE w.cancel_requested_at IS NOT NULL
    ON CONFLICT DO NOTHING
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, actor, correlation_id, payload)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'cancelled', :reason::text, due_at,
        coalesce(:now::timestamptz, now()), :actor::text, correlation_id, payload
    FROM withdrawn
)
SELECT id FROM withdrawn
