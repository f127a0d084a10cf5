-- Not finished: to be tried again later, by whoever owns the slot then. A job that was cancelled while it ran does not
-- come back from here; it ends. An instant wins over a delay.
WITH retry AS (
    SELECT * FROM unnest(:ids::uuid[], :versions::integer[], :run_ats::timestamptz[], :delays::double precision[],
        :attempts::integer[], :tries::integer[], :reasons::text[], :error_classes::text[], :errors::text[],
        :fingerprints::text[], :cursors::text[], :started_ats::timestamptz[])
        AS r(id, version, run_at, delay, attempt, tried, reason, error_class, error, fingerprint, cursor, began_at)
    WHERE r.id NOT IN (SELECT c.job_id FROM timebell.cancel_requests c)
), retried AS (
    UPDATE timebell.jobs j
    SET run_at = coalesce(r.run_at, coalesce(:now::timestamptz, now()) + r.delay * interval '1 second'),
        attempt = r.attempt, version = j.version + 1, started_by = NULL, started_at = NULL,
        cursor = coalesce(r.cursor::jsonb, j.cursor),
        crash_count = CASE WHEN r.began_at IS NULL THEN j.crash_count ELSE 0 END
    FROM retry r
    WHERE j.id = r.id AND j.version = r.version AND j.cancel_requested_at IS NULL
        AND (j.started_by = :incarnation::bigint OR j.started_by IS NULL AND (j.slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
            OR j.slot = ANY(ARRAY(
            SELECT v.slot FROM unnest(:visited_slots::smallint[], :visited_epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots v ON v.slot = w.slot AND v.epoch = w.epoch FOR SHARE OF v))))
        AND (SELECT set_config('lock_timeout', :lock_timeout::text, true)) IS NOT NULL
    RETURNING j.*, r.reason, r.error_class, r.error, r.fingerprint, r.tried, r.began_at
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason,
        error_class, error, fingerprint, due_at, started_at, finished_at, node, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, step, version, tried, 'pending', reason, error_class, error,
        fingerprint, due_at, began_at, coalesce(:now::timestamptz, now()), :incarnation::bigint, correlation_id
    FROM retried
)
SELECT id, version, slot, run_at FROM retried ORDER BY run_at, id
