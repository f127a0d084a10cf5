-- The started jobs of a tenant, the last enqueued first, or the first. Whatever was started was due, and stands at the
-- front of the index that the engine reads by. Behind the wall between tenants the limits below would count the jobs of one
-- tenant alone, so this is for whoever sees all of them.
SELECT j.id, j.tenant, j.queue, j.kind, j.subject, j.key, j.step, j.revision, j.attempt, j.max_attempts, j.due_at,
    j.run_at, j.expires_at, j.created_at, j.started_at, j.cancel_requested_at, j.correlation_id, 'running' AS state
FROM timebell.slots s
CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l(lane)
CROSS JOIN LATERAL (
    SELECT j.* FROM timebell.jobs j
    WHERE j.slot = s.slot AND j.lane = l.lane AND j.run_at <= (SELECT coalesce(:now::timestamptz, now()))
    ORDER BY j.run_at, j.id LIMIT :slot_rows_max::integer
) j
WHERE j.started_by IS NOT NULL AND j.tenant = :tenant::text
    AND (:kind::text IS NULL OR j.kind = :kind::text) AND (:queue::text IS NULL OR j.queue = :queue::text)
    AND j.id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND j.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY CASE WHEN :oldest_first::boolean THEN j.id END, j.id DESC LIMIT :limit::integer + 1
