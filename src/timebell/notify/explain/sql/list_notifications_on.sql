-- Notifications, the first planned first. One call looks at no more than look_max of them.
SELECT * FROM (
    SELECT n.tenant, n.id, n.recipient_id, n.template, n.template_version, n.topic, n.class, n.urgency,
        n.route::text AS route, n.context::text AS context, n.subject, n.key, n.digest_id, n.due_at, n.expires_at,
        n.state, n.reason, n.held_until, n.correlation_id, n.created_at, n.settled_at,
        (:state::text IS NULL OR n.state = :state::text)
            AND (:template::text IS NULL OR n.template = :template::text) AS is_match,
        row_number() OVER (ORDER BY n.id) = :look_max::integer AS is_end
    FROM timebell_notify.standing n
    WHERE n.tenant = :tenant::text
        AND (:recipient_id::uuid IS NULL OR n.recipient_id = :recipient_id::uuid)
        AND (:subject::text IS NULL OR n.subject = :subject::text)
        AND n.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY n.id LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY id LIMIT :limit::integer + 1
