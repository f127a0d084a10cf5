-- The current version of each key that a tenant can use, its own before what is shipped, unless that is locked.
SELECT DISTINCT ON (key) tenant, key, version, topic, class, is_locked, is_current, actor, created_at
FROM timebell_notify.templates
WHERE tenant IN (:tenant::text, '') AND is_current AND (:after::text IS NULL OR key > :after::text)
ORDER BY key, (tenant = '' AND is_locked) DESC, tenant DESC
LIMIT :limit::integer
