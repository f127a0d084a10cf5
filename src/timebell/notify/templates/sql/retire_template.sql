UPDATE timebell_notify.templates
SET is_current = false
WHERE tenant = :tenant::text AND key = :key::text AND is_current
RETURNING version
