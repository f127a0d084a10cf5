-- As finish_jobs, for the other ends: cancelled, skipped, expired, and dead, which waits whole for an operator. A step
-- that was given up by its agenda while it ran, and did not come to an end then, is remembered as cut off.
WITH ending AS (
    SELECT * FROM unnest(:ids::uuid[], :versions::integer[], :states::text[], :reasons::text[], :error_classes::text[],
        :errors::text[], :fingerprints::text[], :attempts::integer[], :started_ats::timestamptz[], :cut_offs::boolean[])
        AS e(id, version, state, reason, error_class, error, fingerprint, attempt, began_at, is_cut_off)
), ended AS (
    DELETE FROM timebell.jobs j USING ending e
    WHERE j.id = e.id AND j.version = e.version
        AND (j.started_by = :incarnation::bigint OR j.started_by IS NULL AND (j.slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
            OR j.slot = ANY(ARRAY(
            SELECT v.slot FROM unnest(:visited_slots::smallint[], :visited_epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots v ON v.slot = w.slot AND v.epoch = w.epoch FOR SHARE OF v))))
        AND (SELECT set_config('lock_timeout', :lock_timeout::text, true)) IS NOT NULL
    RETURNING j.*, e.state, e.reason, e.error_class, e.error, e.fingerprint, e.attempt AS attempts, e.began_at,
        e.is_cut_off
), released AS (
    DELETE FROM timebell.job_keys k USING ended f
    WHERE f.key IS NOT NULL AND k.tenant = f.tenant AND k.kind = f.kind AND k.key = f.key AND k.job_id = f.id
), remembered AS (
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
    SELECT tenant, subject, step, due_at, CASE WHEN is_cut_off AND revision < (SELECT a.revision
            FROM timebell.agendas a WHERE a.tenant = ended.tenant AND a.subject = ended.subject)
        THEN 'cut_off' ELSE state END, id, coalesce(:now::timestamptz, now())
    FROM ended WHERE step IS NOT NULL
    ON CONFLICT DO NOTHING
), buried AS (
    INSERT INTO timebell.dead_jobs (id, tenant, queue, kind, subject, key, due_at, expires_at, version, attempt,
        max_attempts, crash_count, priority, urgency, guard, payload, cursor, correlation_id, created_at, reason,
        error_class, error, fingerprint, died_at)
    SELECT id, tenant, queue, kind, subject, key, due_at, expires_at, version, attempts, max_attempts, crash_count,
        priority, urgency, guard, payload, cursor, correlation_id, created_at, reason, error_class, error, fingerprint,
        coalesce(:now::timestamptz, now())
    FROM ended WHERE state = 'dead'
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason,
        error_class, error, fingerprint, due_at, started_at, finished_at, node, correlation_id, payload)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempts, state, reason, error_class, error,
        fingerprint, due_at, coalesce(started_at, began_at), coalesce(:now::timestamptz, now()), :incarnation::bigint,
        correlation_id, payload
    FROM ended
)
SELECT id FROM ended
