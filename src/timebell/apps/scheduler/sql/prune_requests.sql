-- Requests of a tenant that came to their end long ago: nothing of them is owed, and the log has forgotten them. So many are
-- looked at, past where the last look ended; from the first that is young on, all are.
WITH looked_at AS MATERIALIZED (
    SELECT r.id, r.number, r.due_at, r.recurrence, r.job_id, r.schedule_id, r.cancelled_at, r.created_at,
        r.fired_for, r.updated_at
    FROM scheduler.requests r
    WHERE r.tenant = :tenant::text AND r.number > :after::uuid
    ORDER BY r.number LIMIT :limit::integer
), old AS MATERIALIZED (
    SELECT l.id FROM looked_at l
    CROSS JOIN (SELECT coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day' AS before) AS ended
    WHERE l.created_at < ended.before AND (l.due_at IS NOT NULL OR l.recurrence IS NOT NULL) AND CASE
        WHEN l.cancelled_at IS NOT NULL THEN l.cancelled_at < ended.before
        WHEN l.recurrence IS NULL THEN l.due_at < ended.before
            AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = :tenant::text AND j.id = l.job_id)
            AND NOT EXISTS (SELECT FROM timebell.dead_jobs d WHERE d.tenant = :tenant::text AND d.id = l.job_id)
            AND NOT EXISTS (SELECT FROM timebell.job_log g WHERE g.tenant = :tenant::text AND g.id = l.job_id
                AND g.finished_at >= ended.before)
        ELSE coalesce(l.fired_for, l.updated_at) < ended.before
            AND EXISTS (SELECT FROM scheduler.standings s
                WHERE s.tenant = :tenant::text AND s.id = l.id AND s.status <> 'pending')
            AND NOT EXISTS (SELECT FROM timebell.occurrences o
                JOIN timebell.job_log g ON g.tenant = o.tenant AND g.subject = 'occurrence:' || o.id
                WHERE o.tenant = :tenant::text AND o.schedule_id = l.schedule_id AND o.occurs_at = l.fired_for
                    AND g.finished_at >= ended.before)
        END
), pruned AS (
    DELETE FROM scheduler.requests r USING old o WHERE r.tenant = :tenant::text AND r.id = o.id
    RETURNING r.id, r.schedule_id
)
SELECT l.number, p.id IS NOT NULL AS is_pruned, p.schedule_id,
    l.created_at >= coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day' AS is_young
FROM looked_at l LEFT JOIN pruned p ON p.id = l.id ORDER BY l.number
