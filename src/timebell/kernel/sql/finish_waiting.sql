-- Jobs that wait, and whose work another does: ended as done, as finish_jobs does it. One that runs, or that somebody else
-- holds, is left alone and not waited for; with a cursor, so is one that does not wait at that point any more.
WITH finished AS (
    DELETE FROM timebell.jobs j
    WHERE j.id = ANY (ARRAY(
        SELECT w.id FROM timebell.jobs w
        WHERE w.tenant = :tenant::text AND w.id = ANY (:ids::uuid[]) AND w.started_by IS NULL
            AND w.cancel_requested_at IS NULL AND w.id NOT IN (SELECT r.job_id FROM timebell.cancel_requests r)
            AND (:cursor::jsonb IS NULL OR w.cursor = :cursor::jsonb)
        ORDER BY w.id FOR UPDATE SKIP LOCKED))
    RETURNING j.*
), released AS (
    DELETE FROM timebell.job_keys k USING finished f
    WHERE f.key IS NOT NULL AND k.tenant = f.tenant AND k.kind = f.kind AND k.key = f.key AND k.job_id = f.id
        AND k.lifetime_seconds IS NULL
), lapsing AS (
    UPDATE timebell.job_keys k
    SET expires_at = coalesce(:now::timestamptz, now()) + k.lifetime_seconds * interval '1 second'
    FROM finished f
    WHERE f.key IS NOT NULL AND k.tenant = f.tenant AND k.kind = f.kind AND k.key = f.key AND k.job_id = f.id
        AND k.lifetime_seconds IS NOT NULL
), remembered AS (
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
    SELECT tenant, subject, step, due_at, 'done', id, coalesce(:now::timestamptz, now())
    FROM finished WHERE step IS NOT NULL
    ON CONFLICT DO NOTHING
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'done', :reason::text, due_at,
        coalesce(:now::timestamptz, now()), correlation_id
    FROM finished
)
SELECT id FROM finished ORDER BY id
