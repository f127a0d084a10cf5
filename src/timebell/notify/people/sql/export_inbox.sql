-- The inbox of a recipient, whole, the oldest first, and one more than asked for if there are more.
SELECT i.id, to_jsonb(i)::text AS line
FROM timebell_notify.inbox i
WHERE i.tenant = :tenant::text AND i.recipient_id = :recipient_id::uuid
    AND i.seq > coalesce((SELECT seq FROM timebell_notify.inbox
        WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND id = :after::uuid), 0)
ORDER BY i.seq LIMIT :limit::integer + 1
