UPDATE marketplace.magic_link_tokens
SET used = true, used_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND used = false
RETURNING used_at
