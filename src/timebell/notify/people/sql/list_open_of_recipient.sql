-- What is still to be told to a recipient.
SELECT id FROM timebell_notify.notifications
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND settled_at IS NULL
ORDER BY id LIMIT :limit::integer
