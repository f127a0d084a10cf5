SELECT tenant, id, name, prefix, scope, is_test, actor, created_at, expires_at, revoked_at, last_used_on
FROM timebell_web.api_keys
WHERE tenant = :tenant AND (:after::uuid IS NULL OR id > :after)
ORDER BY id LIMIT :limit + 1
