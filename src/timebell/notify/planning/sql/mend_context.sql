-- Gives a notification that was not told yet what its context lacked.
UPDATE timebell_notify.notifications n
SET context = n.context || :context::jsonb, mended = coalesce(n.mended, '{}') || :context::jsonb
WHERE n.tenant = :tenant::text AND n.id = :id::uuid AND n.settled_at IS NULL AND NOT n.is_erased
RETURNING n.id
