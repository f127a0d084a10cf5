-- Steps whose time had passed when they were stated: remembered and logged, never run.
WITH skipped AS (
    SELECT * FROM unnest(:ids::uuid[], :tenants::text[], :subjects::text[], :steps::text[], :kinds::text[],
        :queues::text[], :due_ats::timestamptz[], :reasons::text[], :correlation_ids::text[])
        AS s(id, tenant, subject, step, kind, queue, due_at, reason, correlation_id)
), remembered AS (
    INSERT INTO timebell.agenda_done AS d (tenant, subject, step, due_at, state, job_id, finished_at)
    SELECT tenant, subject, step, due_at, 'skipped', id, coalesce(:now::timestamptz, now()) FROM skipped
    ON CONFLICT (tenant, subject, step, due_at) DO UPDATE SET state = excluded.state WHERE d.state = 'cut_off'
)
INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, step, version, attempt, state, reason, due_at,
    finished_at, correlation_id)
SELECT id, tenant, queue, kind, subject, step, 0, 0, 'skipped', reason, due_at, coalesce(:now::timestamptz, now()),
    correlation_id
FROM skipped
