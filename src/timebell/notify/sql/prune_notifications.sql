-- Notifications that were settled long ago, with everything that came of them: deliveries and their attempts, the entry in the
-- inbox, and what demo mode kept.
WITH old AS MATERIALIZED (
    SELECT n.tenant, n.id FROM timebell_notify.notifications n
    WHERE n.settled_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY n.settled_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
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
    RETURNING 1
)
SELECT count(*) AS pruned_count FROM pruned
