-- Steps whose time had passed when they were stated: remembered and logged, never run.
WITH skipped AS (
    SELECT * FROM unnest(:ids::uuid[], :steps::text[], :kinds::text[], :queues::text[], :due_ats::timestamptz[],
        :reasons::text[]) AS s(id, step, kind, queue, due_at, reason)
), remembered AS (
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
    SELECT :tenant::text, :subject::text, step, due_at, 'skipped', id, coalesce(:now::timestamptz, now()) FROM skipped
    ON CONFLICT DO NOTHING
)
INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, step, version, attempt, state, reason, due_at,
    finished_at, correlation_id)
SELECT id, :tenant::text, queue, kind, :subject::text, step, 0, 0, 'skipped', reason, due_at,
    coalesce(:now::timestamptz, now()), :correlation_id::text
FROM skipped
