-- What waits for a person: what failed, what may or may not have been told, what lacks a value, and what was given up with
-- its job; the oldest first. What was taken back since waits for nobody. BETWEEN as in the kernel's list_unfinished.
SELECT n.tenant, n.id, n.recipient_id, n.template, n.template_version, n.topic, n.class, n.urgency,
        n.route::text AS route, n.context::text AS context, n.subject, n.key, n.digest_id, n.due_at, n.expires_at,
        n.state, n.reason, n.held_until, n.correlation_id, n.created_at, n.settled_at
FROM (
    (SELECT w.id FROM timebell_notify.notifications w
    JOIN timebell_notify.standing s ON s.tenant = w.tenant AND s.id = w.id
    WHERE w.tenant = :tenant::text AND (w.state IN ('failed', 'uncertain') OR w.reason = 'template_incomplete')
        AND (s.state IN ('failed', 'uncertain') OR s.reason = 'template_incomplete')
        AND w.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY w.id LIMIT :limit::integer + 1)
    UNION
    (SELECT w.id FROM timebell_notify.owed o
    JOIN timebell_notify.notifications w ON w.tenant = o.tenant AND w.id = o.id AND w.settled_at IS NULL
    WHERE o.tenant BETWEEN :tenant::text AND :tenant::text AND o.is_dead
        AND o.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY w.id LIMIT :limit::integer + 1)
) found
JOIN timebell_notify.standing n ON n.tenant = :tenant::text AND n.id = found.id
ORDER BY n.id LIMIT :limit::integer + 1
