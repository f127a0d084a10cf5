-- What waits to be told to a recipient, for one of the given reasons.
SELECT id FROM timebell_notify.notifications
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND held_until IS NOT NULL
    AND settled_at IS NULL AND reason = ANY (:reasons::text[])
ORDER BY id LIMIT :limit::integer
