-- What a recipient was to be told, whole, the oldest first, and one more than asked for if there are more.
SELECT n.id, (to_jsonb(n) || jsonb_build_object(
    'deliveries', (SELECT coalesce(jsonb_agg(to_jsonb(d) || jsonb_build_object(
            'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.number), '[]')
                FROM timebell_notify.attempts t WHERE t.tenant = d.tenant AND t.delivery_id = d.id),
            'reports', (SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.received_at), '[]')
                FROM timebell_notify.provider_reports p WHERE p.delivery_id = d.id)) ORDER BY d.id), '[]')
        FROM timebell_notify.deliveries d WHERE d.tenant = n.tenant AND d.notification_id = n.id),
    'outbox', (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.id), '[]')
        FROM timebell_notify.outbox o
        WHERE o.tenant = n.tenant AND o.recipient_id = n.recipient_id AND o.notification_id = n.id)))::text AS line
FROM timebell_notify.standing n
WHERE n.tenant = :tenant::text AND n.recipient_id = :recipient_id::uuid
    AND n.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY n.id LIMIT :limit::integer + 1
