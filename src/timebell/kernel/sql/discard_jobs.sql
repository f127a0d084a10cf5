-- Dead jobs that an operator gives up for good; the log keeps what happened.
WITH chosen AS (
    SELECT d.id FROM timebell.dead_jobs d
    WHERE d.tenant = :tenant::text
        AND (:ids::uuid[] IS NULL OR d.id = ANY(:ids::uuid[]))
        AND (:kind::text IS NULL OR d.kind = :kind::text)
        AND (:queue::text IS NULL OR d.queue = :queue::text)
        AND (:fingerprint::text IS NULL OR d.fingerprint = :fingerprint::text)
    ORDER BY d.died_at, d.id LIMIT :limit::integer
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM timebell.dead_jobs d USING chosen c WHERE d.id = c.id RETURNING d.*
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, version, attempt, state, reason, due_at,
        finished_at, actor, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, version, attempt, 'dead', 'discarded', due_at,
        coalesce(:now::timestamptz, now()), :actor::text, correlation_id FROM gone
)
SELECT id FROM gone ORDER BY id
