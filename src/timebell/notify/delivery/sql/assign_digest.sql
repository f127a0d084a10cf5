-- The notification that is going to tell a digest.
UPDATE timebell_notify.digests SET notification_id = :notification_id::uuid
WHERE tenant = :tenant::text AND id = :id::uuid
