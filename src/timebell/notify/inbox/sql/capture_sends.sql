-- Keeps what would have left, as it would have left; a delivery that was kept before is kept once.
INSERT INTO timebell_notify.outbox (tenant, id, delivery_id, notification_id, recipient_id, channel, address, template,
    subject, body, content, reason, captured_at)
SELECT d.tenant, c.id, d.id, d.notification_id, d.recipient_id, d.channel, d.address, n.template,
    d.content ->> 'subject', coalesce(d.content ->> 'text', ''), coalesce(d.content, '{}'), c.reason,
    coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :ids::uuid[], :delivery_ids::uuid[], :reasons::text[])
    AS c(tenant, id, delivery_id, reason)
JOIN timebell_notify.deliveries d ON d.tenant = c.tenant AND d.id = c.delivery_id
JOIN timebell_notify.notifications n ON n.tenant = d.tenant AND n.id = d.notification_id
ORDER BY d.tenant, d.id
ON CONFLICT (tenant, delivery_id) DO NOTHING
