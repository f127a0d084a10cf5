-- Whoever erases a recipient waits here for what is being written about it, and nothing more is until it is erased.
SELECT id FROM timebell_notify.recipients
WHERE tenant = :tenant::text AND id = :id::uuid
FOR UPDATE
