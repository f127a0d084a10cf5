-- Jobs that a node had started when it died: nobody knows how far they came. They return, counted as crashed with it.
-- One that a caller holds is left for the next look, so that it does not hold up the others.
WITH recovered AS (
    UPDATE timebell.jobs j
    SET started_by = NULL, started_at = NULL, crash_count = j.crash_count + 1, version = j.version + 1
    WHERE j.id = ANY(ARRAY(
            SELECT f.id FROM timebell.jobs f WHERE f.id = ANY(:ids::uuid[]) ORDER BY f.id FOR UPDATE SKIP LOCKED))
        AND j.started_by IS NOT NULL
        AND NOT EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = j.started_by)
        AND j.slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
    RETURNING j.*
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, node, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'pending', 'uncertain', due_at,
        coalesce(:now::timestamptz, now()), :incarnation::bigint, correlation_id
    FROM recovered
)
SELECT id, slot, run_at FROM recovered ORDER BY run_at, id
