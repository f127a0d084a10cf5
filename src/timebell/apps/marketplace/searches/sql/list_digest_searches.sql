-- Those of a zone that have a digest, person by person, some at a time.
SELECT s.user_id, s.id
FROM marketplace.saved_searches s
WHERE s.tenant = :tenant::text AND s.timezone = :timezone::text AND s.is_active AND (s.digest_enabled OR s.has_overflow)
    AND s.user_id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY s.user_id, s.id
LIMIT :limit::integer
