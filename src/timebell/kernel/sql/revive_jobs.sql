-- Dead jobs return to the queue under their own id, with their attempts counted anew. A job whose key has been
-- taken by another stays dead; of several with one key the first to die returns.
WITH locked AS (
    SELECT d.* FROM timebell.dead_jobs d
    WHERE d.tenant = :tenant::text
        AND (:ids::uuid[] IS NULL OR d.id = ANY(:ids::uuid[]))
        AND (:kind::text IS NULL OR d.kind = :kind::text)
        AND (:queue::text IS NULL OR d.queue = :queue::text)
        AND (:fingerprint::text IS NULL OR d.fingerprint = :fingerprint::text)
        AND NOT EXISTS (SELECT FROM timebell.job_keys k WHERE k.tenant = d.tenant AND k.kind = d.kind AND k.key = d.key
            AND (k.expires_at IS NULL OR k.expires_at > coalesce(:now::timestamptz, now())))
    ORDER BY d.died_at, d.id LIMIT :limit::integer
    FOR UPDATE SKIP LOCKED
), chosen AS (
    SELECT DISTINCT ON (l.kind, l.key, CASE WHEN l.key IS NULL THEN l.id END) l.* FROM locked l
    ORDER BY l.kind, l.key, CASE WHEN l.key IS NULL THEN l.id END, l.died_at, l.id
), rekeyed AS (
    INSERT INTO timebell.job_keys AS held (tenant, kind, key, job_id, fingerprint)
    SELECT c.tenant, c.kind, c.key, c.id, timebell.job_fingerprint(c.queue, c.subject, c.payload, c.due_at)
    FROM chosen c WHERE c.key IS NOT NULL
    ORDER BY c.kind, c.key
    ON CONFLICT (tenant, kind, key) DO UPDATE
        SET job_id = excluded.job_id, fingerprint = excluded.fingerprint, lifetime_seconds = NULL, expires_at = NULL
        WHERE held.expires_at <= coalesce(:now::timestamptz, now())
    RETURNING job_id
), revived AS (
    SELECT c.* FROM chosen c WHERE c.key IS NULL OR c.id IN (SELECT job_id FROM rekeyed)
), gone AS (
    DELETE FROM timebell.dead_jobs d USING revived r WHERE d.id = r.id
), forgotten AS (
    DELETE FROM timebell.cancel_requests c USING revived r WHERE c.job_id = r.id
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, version, attempt, state, reason, due_at,
        finished_at, actor, correlation_id)
    SELECT r.id, r.tenant, r.queue, r.kind, r.subject, r.key, r.version + 1, 0, 'pending', 'revived', r.due_at,
        coalesce(:now::timestamptz, now()), :actor::text, r.correlation_id FROM revived r
)
INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, key, lane, run_at, due_at, expires_at, version,
    max_attempts, priority, urgency, guard, payload, cursor, correlation_id, created_at)
SELECT r.id, r.tenant, r.queue, r.kind, r.subject, r.key, CASE r.urgency WHEN 'critical' THEN 0 ELSE 1 END,
    coalesce(:now::timestamptz, now())
        + (row_number() OVER (ORDER BY r.died_at, r.id) - 1) * :spacing_seconds::double precision * interval '1 second',
    r.due_at, r.expires_at, r.version + 1, r.max_attempts, r.priority, r.urgency, r.guard,
    coalesce(:payload::text::jsonb, r.payload), r.cursor, r.correlation_id, r.created_at
FROM revived r
RETURNING id, slot, run_at, due_at,
    run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds' AS is_near
