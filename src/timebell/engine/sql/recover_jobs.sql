-- Jobs that a node had started when it died: nobody knows how far they came. They return, counted as crashed with it;
-- at most once where that proves nothing, because the process lives on or whoever looks was cut off itself, unless it
-- was begun too often for a job that ever ends. The last crash, after which a job is taken for the cause, counts where
-- it was alone in enough deaths: three, and one for each of the last ten minutes that no job explains. Of those it may
-- have had a part in one where its starts are not marked. One that was begun too often is not waited for. What a caller
-- holds is left for the next look.
WITH lost AS MATERIALIZED (
    SELECT f.id, f.started_by, p.is_proof, p.is_proof AND f.crash_count >= :alone_from::smallint AS was_alone,
        (SELECT count(*) FROM timebell.suspects s
            WHERE s.job_id = f.id AND s.was_alone AND s.incarnation <> f.started_by) AS alone_count,
        (SELECT count(*) FROM timebell.node_deaths d WHERE d.incarnation <> f.started_by
            AND d.died_at > coalesce(:now::timestamptz, now()) - interval '10 minutes'
            AND d.died_at <= coalesce(:now::timestamptz, now()) - interval '2 seconds'
            AND NOT EXISTS (SELECT FROM timebell.suspects s WHERE s.incarnation = d.incarnation))
            - CASE WHEN o.is_marked THEN 0 ELSE 1 END AS foreign_count
    FROM unnest(:ids::uuid[], :are_marked::boolean[]) AS o(id, is_marked)
    JOIN timebell.jobs f ON f.id = o.id
    CROSS JOIN LATERAL (SELECT NOT :is_blind::boolean AND NOT EXISTS (
        SELECT FROM timebell.nodes n WHERE f.started_by = ANY(n.survived)) AS is_proof) p
), recovered AS (
    UPDATE timebell.jobs j
    SET started_by = NULL, started_at = NULL, version = j.version + 1, crash_count = CASE
        WHEN j.crash_count = 0 THEN 1
        WHEN l.is_proof AND (j.crash_count + 1 < :crashes_max::smallint OR j.attempt >= :starts_max::integer
            OR l.alone_count + 1 >= :crashes_max::smallint - :alone_from::smallint + greatest(0, l.foreign_count))
            THEN j.crash_count + 1
        WHEN NOT l.is_proof AND j.attempt >= :unproven_starts_max::integer THEN j.crash_count + 1
        ELSE j.crash_count END
    FROM lost l
    WHERE l.id = j.id AND j.id = ANY(ARRAY(
            SELECT f.id FROM timebell.jobs f WHERE f.id = ANY(:ids::uuid[]) ORDER BY f.id FOR UPDATE SKIP LOCKED))
        AND j.started_by IS NOT NULL
        AND NOT EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = j.started_by)
        AND j.slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
    RETURNING j.*, l.was_alone, l.is_proof, l.started_by AS lost_with
), suspected AS (
    INSERT INTO timebell.suspects (incarnation, job_id, was_alone)
    SELECT lost_with, id, was_alone FROM recovered WHERE is_proof
    ON CONFLICT DO NOTHING
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, node, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'pending', 'uncertain', due_at,
        coalesce(:now::timestamptz, now()), :incarnation::bigint, correlation_id
    FROM recovered
)
SELECT id, slot, run_at FROM recovered ORDER BY run_at, id
