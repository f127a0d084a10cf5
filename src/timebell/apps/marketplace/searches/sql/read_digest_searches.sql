-- What these people have that was in no digest of this instant yet.
SELECT s.id, s.user_id, s.criteria::text AS criteria, s.digest_enabled, s.send_empty_digest
FROM marketplace.saved_searches s
WHERE s.tenant = :tenant::text AND s.user_id = ANY (:user_ids::uuid[]) AND s.is_active
    AND (s.digest_enabled OR s.has_overflow)
    AND (s.last_digest_at IS NULL OR s.last_digest_at < :at::timestamptz)
ORDER BY s.user_id, s.id
LIMIT :limit::integer
