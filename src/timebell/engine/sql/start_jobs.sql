-- Marks jobs of one version as started, of those that are still due, wanted, in order and ours to start. Answers with null
-- where all are started, and else with those that are. In a slot that is only visited its owner must stay the one that
-- leaves them, until this is committed. The lock timeout holds for this statement alone, also behind a pooler.
WITH started AS (
    UPDATE timebell.jobs j
    SET started_by = :incarnation::bigint, started_at = coalesce(:now::timestamptz, now()), version = j.version + 1,
        attempt = j.attempt + 1
    WHERE j.id = ANY(:ids::uuid[]) AND j.version = :version::integer AND j.started_by IS NULL
        AND j.cancel_requested_at IS NULL AND j.id NOT IN (SELECT r.job_id FROM timebell.cancel_requests r)
        AND j.run_at <= coalesce(:now::timestamptz, now())
        AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now::timestamptz, now()))
        AND (j.slot = ANY(ARRAY(
            SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
            OR j.slot = ANY(ARRAY(
            SELECT v.slot FROM unnest(:visited_slots::smallint[], :visited_epochs::bigint[]) AS w(slot, epoch)
            JOIN timebell.slots v ON v.slot = w.slot AND v.epoch = w.epoch FOR SHARE OF v)))
        AND (j.step IS NULL OR j.revision = (
            SELECT a.revision FROM timebell.agendas a WHERE a.tenant = j.tenant AND a.subject = j.subject))
        AND (j.step_order IS NULL OR NOT EXISTS (
            SELECT FROM timebell.jobs earlier WHERE earlier.tenant = j.tenant AND earlier.subject = j.subject
                AND earlier.step_order < j.step_order))
        AND (SELECT set_config('lock_timeout', :lock_timeout::text, true)) IS NOT NULL
    RETURNING j.id
)
SELECT CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN coalesce(array_agg(id), '{}') END AS started FROM started
