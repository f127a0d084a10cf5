-- A recipient's inbox from an entry on, the oldest first, and one more than asked for if there are more. One branch is for
-- any status and one for a certain one, so that each is read in the order of its own index.
SELECT id, seq, recipient_id, type, title, description, status, priority, payload::text AS payload, subject, due_at,
    created_at, updated_at
FROM (
    (SELECT * FROM timebell_notify.inbox
    WHERE :status::text IS NULL AND tenant = :tenant::text AND recipient_id = :recipient_id::uuid
        AND seq > :after::bigint
    ORDER BY seq LIMIT :limit::integer + 1)
    UNION ALL
    (SELECT * FROM timebell_notify.inbox
    WHERE status = :status::text AND tenant = :tenant::text AND recipient_id = :recipient_id::uuid
        AND seq > :after::bigint
    ORDER BY seq LIMIT :limit::integer + 1)
) found
ORDER BY seq LIMIT :limit::integer + 1
