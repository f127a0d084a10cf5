-- A key that was revoked before stays revoked since then.
UPDATE timebell_web.api_keys
SET revoked_at = coalesce(revoked_at, coalesce(:lease_now::timestamptz, now()))
WHERE tenant = :tenant AND id = :id
RETURNING tenant, id, name, prefix, scope, is_test, actor, created_at, expires_at, revoked_at, last_used_on
