-- Notifications that were taken back while they were being told, and of which it is known by now that nothing was taken; and
-- with them the ways that will not be tried again. Deliveries before notifications, as reports take them.
WITH untaken AS MATERIALIZED (
    SELECT DISTINCT n.tenant, n.id
    FROM unnest(:tenants::text[], :delivery_ids::uuid[]) AS a(tenant, delivery_id)
    JOIN timebell_notify.deliveries d ON d.tenant = a.tenant AND d.id = a.delivery_id
    JOIN timebell_notify.notifications n ON n.tenant = d.tenant AND n.id = d.notification_id
    WHERE (n.state, n.reason) = ('uncertain', 'withdrawn') AND NOT EXISTS (
        SELECT FROM timebell_notify.deliveries o WHERE o.tenant = n.tenant AND o.notification_id = n.id
            AND (o.state IN ('delivered', 'sent', 'suppressed', 'uncertain') OR EXISTS (
                SELECT FROM timebell_notify.attempts t
                WHERE t.tenant = o.tenant AND t.delivery_id = o.id AND t.answer IS NULL)))
), abandoned AS (
    UPDATE timebell_notify.deliveries d
    SET state = 'skipped', reason = 'withdrawn', updated_at = coalesce(:now::timestamptz, now())
    FROM untaken u WHERE d.tenant = u.tenant AND d.notification_id = u.id AND d.state = 'pending'
    RETURNING d.tenant, d.notification_id
)
UPDATE timebell_notify.notifications n SET state = 'withdrawn'
FROM (SELECT DISTINCT tenant, notification_id FROM abandoned) b
WHERE n.tenant = b.tenant AND n.id = b.notification_id AND (n.state, n.reason) = ('uncertain', 'withdrawn')
