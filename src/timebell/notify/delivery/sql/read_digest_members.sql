-- What a digest tells, in the order in which it was due: at most so many, and at most so much; and how many there are.
SELECT m.*, (SELECT count(*) FROM timebell_notify.notifications c WHERE c.tenant = :tenant::text
    AND c.digest_id = :digest_id::uuid AND c.settled_at IS NULL) AS member_count
FROM (
    SELECT first.*, sum(octet_length(first.context)) OVER (ORDER BY first.due_at, first.id) AS bytes
    FROM (
        SELECT n.id, n.recipient_id, n.template, n.template_version, n.topic, n.class, n.urgency,
            n.route::text AS route, n.guard, n.context::text AS context, n.subject, n.key, n.digest::text AS digest,
            n.on_quiet, n.due_at, n.expires_at, n.correlation_id, n.context_from
        FROM timebell_notify.notifications n
        WHERE n.tenant = :tenant::text AND n.digest_id = :digest_id::uuid AND n.settled_at IS NULL
        ORDER BY n.due_at, n.id LIMIT :limit::integer
    ) first
) m
WHERE m.bytes - octet_length(m.context) < :bytes_max::integer
ORDER BY m.due_at, m.id
