-- Those of one person, of whom nobody has many.
SELECT s.id, s.user_id, s.criteria::text AS criteria, s.is_active, s.instant_enabled, s.digest_enabled, s.send_empty_digest,
    s.channels, s.timezone, s.last_digest_at, s.zero_streak, s.created_at, s.updated_at
FROM marketplace.saved_searches s
WHERE s.tenant = :tenant::text AND s.user_id = :user_id::uuid
    AND s.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY s.id LIMIT :limit::integer + 1
