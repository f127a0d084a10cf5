UPDATE timebell_notify.templates
SET is_current = true
WHERE tenant = :tenant::text AND key = :key::text AND version = :version::integer
RETURNING version
