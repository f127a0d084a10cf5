-- Which delivery each report is about: by our id or else by the provider's own, and only if that provider carried it.
-- One that no provider carries is in no index that reports are looked up by.
SELECT r.position - 1 AS position, d.tenant, d.id, d.recipient_id, d.notification_id, d.channel, d.address, n.topic
FROM unnest(:delivery_ids::uuid[], :provider_ids::text[]) WITH ORDINALITY AS r(delivery_id, provider_id, position)
JOIN LATERAL (
    SELECT 1 AS place, c.* FROM timebell_notify.deliveries c
    WHERE c.id = r.delivery_id AND c.provider = :provider::text AND c.provider NOT IN ('', 'inbox')
    UNION ALL
    SELECT 2 AS place, c.* FROM timebell_notify.deliveries c
    WHERE c.provider = :provider::text AND c.provider_id = r.provider_id
    ORDER BY place LIMIT 1
) d ON true
JOIN timebell_notify.notifications n ON n.tenant = d.tenant AND n.id = d.notification_id
ORDER BY r.position
