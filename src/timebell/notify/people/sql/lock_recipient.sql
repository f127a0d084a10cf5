-- Whoever changes a recipient waits here for whoever else does, and reads it afterwards, in another statement.
SELECT revision, erased_at FROM timebell_notify.recipients
WHERE tenant = :tenant::text AND id = :id::uuid
FOR NO KEY UPDATE
