SELECT tenant, key, version, topic, class, is_locked, is_current, actor, created_at
FROM timebell_notify.templates
WHERE tenant IN (:tenant::text, '') AND key = :key::text AND (:before::integer IS NULL OR version < :before::integer)
ORDER BY version DESC
LIMIT :limit::integer
