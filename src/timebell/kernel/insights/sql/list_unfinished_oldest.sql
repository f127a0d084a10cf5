-- The unfinished jobs of a tenant, or those about one subject, the first enqueued first; looked at as in list_unfinished.
WITH looked_at AS (
    (SELECT j.id, j.kind, j.queue, j.started_by IS NULL AS is_pending FROM timebell.jobs j
    WHERE :subject::text IS NULL AND j.tenant BETWEEN :tenant::text AND :tenant::text
        AND j.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY j.id LIMIT :look_max::integer)
    UNION ALL
    (SELECT j.id, j.kind, j.queue, j.started_by IS NULL FROM timebell.jobs j
    WHERE j.tenant BETWEEN :tenant::text AND :tenant::text AND j.subject = :subject::text
        AND j.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY j.id LIMIT :look_max::integer)
), marked AS (
    SELECT id,
        (:kind::text IS NULL OR kind = :kind::text) AND (:queue::text IS NULL OR queue = :queue::text)
            AND (:state::text IS NULL OR is_pending = (:state::text = 'pending')) AS is_match,
        row_number() OVER (ORDER BY id) = :look_max::integer AS is_end
    FROM looked_at
), found AS MATERIALIZED (
    SELECT id, is_match, is_end FROM marked WHERE is_match OR is_end ORDER BY id LIMIT :limit::integer + 1
)
SELECT id, j.tenant, j.queue, j.kind, j.subject, j.key, j.step, j.revision, j.attempt, j.max_attempts, j.due_at,
    j.run_at, j.expires_at, j.created_at, j.started_at, j.cancel_requested_at, j.correlation_id,
    CASE WHEN j.started_by IS NULL THEN 'pending' ELSE 'running' END AS state,
    CASE WHEN j.started_by IS NULL AND j.lane = 2 THEN 'parked' END AS reason, is_match, is_end
FROM found JOIN timebell.jobs j USING (id)
ORDER BY id
