-- Where notifications stand that were settled just now, by a run during which something was reported of their deliveries:
-- as together() in standing.py has it, and as it would be had the report come afterwards.
UPDATE timebell_notify.notifications n
SET state = b.state, reason = b.reason
FROM unnest(:tenants::text[], :ids::uuid[]) AS a(tenant, id)
CROSS JOIN LATERAL (
    SELECT d.state, d.reason FROM timebell_notify.deliveries d
    WHERE d.tenant = a.tenant AND d.notification_id = a.id
    ORDER BY array_position(ARRAY['delivered', 'sent', 'suppressed', 'uncertain', 'failed', 'skipped'], d.state),
        d.created_at, d.id LIMIT 1
) b
WHERE n.tenant = a.tenant AND n.id = a.id AND (n.state, n.reason) IS DISTINCT FROM (b.state, b.reason)
    AND EXISTS (SELECT FROM timebell_notify.deliveries d JOIN timebell_notify.provider_reports p ON p.delivery_id = d.id
        WHERE d.tenant = a.tenant AND d.notification_id = a.id AND p.applied = 'applied')
RETURNING n.id, n.state, n.reason
