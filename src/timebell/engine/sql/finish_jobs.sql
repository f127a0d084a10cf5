-- Done: deleted, logged, its key released, its step remembered, in one statement and for many jobs of one version.
-- A started job is known by who started it; any other by the epoch of its slot, row by row. Answers with null where all
-- are finished, and else with those that are: the others were moved, cancelled or taken over. Jobs that began together
-- stand together, from the first of each of firsts on.
WITH finished AS (
    DELETE FROM timebell.jobs
    WHERE id = ANY(:ids::uuid[]) AND version = :version::integer
        AND (started_by = :incarnation::bigint OR started_by IS NULL AND slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint)))
        AND (SELECT set_config('lock_timeout', :lock_timeout::text, true)) IS NOT NULL
    RETURNING id, tenant, queue, kind, subject, key, step, version, due_at, correlation_id, started_at,
        attempt + CASE WHEN started_by IS NULL THEN 1 ELSE 0 END AS attempt
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
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, due_at,
        started_at, finished_at, node, correlation_id)
    SELECT f.id, tenant, queue, kind, subject, key, step, version, attempt, 'done', due_at,
        coalesce(started_at, (:started_ats::timestamptz[])[width_bucket(b.position, :firsts::bigint[])]),
        coalesce(:now::timestamptz, now()), :incarnation::bigint, correlation_id
    FROM finished f JOIN unnest(:ids::uuid[]) WITH ORDINALITY AS b(id, position) ON b.id = f.id
)
SELECT CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN coalesce(array_agg(id), '{}') END AS finished FROM finished
