-- Notifications that would have been told long ago and never were settled, as far as nothing is owed about them any more: they
-- were taken back, or given up with a job that is forgotten. A bounded number is looked at, past where the last look ended.
WITH looked_at AS MATERIALIZED (
    SELECT n.tenant, n.id, n.due_at, n.digest_id FROM timebell_notify.notifications n
    WHERE n.settled_at IS NULL AND (n.due_at, n.id) > (:after::timestamptz, :after_id::uuid)
        AND n.due_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY n.due_at, n.id LIMIT :limit::integer
), old AS MATERIALIZED (
    SELECT n.tenant, n.id FROM looked_at l
    JOIN timebell_notify.notifications n ON n.tenant = l.tenant AND n.id = l.id AND n.settled_at IS NULL
    WHERE NOT EXISTS (SELECT FROM timebell_notify.owed w WHERE w.tenant = l.tenant AND w.id = l.id)
        AND NOT EXISTS (SELECT FROM timebell_notify.digests g
            JOIN timebell_notify.owed w ON w.tenant = g.tenant AND w.id = g.notification_id
            WHERE g.tenant = l.tenant AND g.id = l.digest_id)
    FOR UPDATE OF n SKIP LOCKED
), delivery AS (
    DELETE FROM timebell_notify.deliveries d USING old o WHERE d.tenant = o.tenant AND d.notification_id = o.id
    RETURNING d.tenant, d.id
), attempt AS (
    DELETE FROM timebell_notify.attempts t USING delivery d WHERE t.tenant = d.tenant AND t.delivery_id = d.id
), kept AS (
    DELETE FROM timebell_notify.outbox x USING delivery d WHERE x.tenant = d.tenant AND x.delivery_id = d.id
), entry AS (
    DELETE FROM timebell_notify.inbox i USING old o WHERE i.tenant = o.tenant AND i.id = o.id
), pruned AS (
    DELETE FROM timebell_notify.notifications n USING old o WHERE n.tenant = o.tenant AND n.id = o.id
)
SELECT due_at AS at, id, count(*) OVER () AS looked_at_count FROM looked_at ORDER BY due_at DESC, id DESC LIMIT 1
