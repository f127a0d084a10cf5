-- Notifications that were taken back while they were being told, and of which it is known by now that nothing was taken.
UPDATE timebell_notify.notifications n SET state = 'withdrawn'
FROM unnest(:tenants::text[], :delivery_ids::uuid[]) AS a(tenant, delivery_id)
JOIN timebell_notify.deliveries d ON d.tenant = a.tenant AND d.id = a.delivery_id
WHERE n.tenant = d.tenant AND n.id = d.notification_id AND (n.state, n.reason) = ('uncertain', 'withdrawn')
    AND NOT EXISTS (SELECT FROM timebell_notify.deliveries o
        WHERE o.tenant = n.tenant AND o.notification_id = n.id
            AND (o.state IN ('delivered', 'sent', 'suppressed', 'uncertain') OR EXISTS (
                SELECT FROM timebell_notify.attempts t
                WHERE t.tenant = o.tenant AND t.delivery_id = o.id AND t.answer IS NULL)))
