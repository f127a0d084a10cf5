-- One notification with everything that was considered about it, its deliveries and their attempts, and the timezone of
-- its recipient.
SELECT n.tenant, n.id, n.recipient_id, n.template, n.template_version, n.topic, n.class, n.urgency,
    n.route::text AS route, n.context::text AS context, n.subject, n.key, n.digest_id, n.due_at, n.expires_at, n.state,
    n.reason, n.held_until, n.correlation_id, n.created_at, n.settled_at, n.decisions::text AS decisions, r.timezone,
    (SELECT coalesce(jsonb_agg(to_jsonb(d) || jsonb_build_object(
            'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.number), '[]')
                FROM timebell_notify.attempts t WHERE t.tenant = d.tenant AND t.delivery_id = d.id))
            ORDER BY d.created_at, d.id), '[]')::text
        FROM timebell_notify.deliveries d WHERE d.tenant = n.tenant AND d.notification_id = n.id) AS deliveries
FROM timebell_notify.standing n
LEFT JOIN timebell_notify.recipients r ON r.tenant = n.tenant AND r.id = n.recipient_id
WHERE n.tenant = :tenant::text AND n.id = :id::uuid
