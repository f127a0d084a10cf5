-- A new key; answers with nothing where there is one with that digest.
INSERT INTO timebell_web.api_keys (tenant, id, name, prefix, digest, scope, is_test, actor, created_at, expires_at)
VALUES (:tenant, :id, :name, :prefix, :digest, :scope, :is_test, :actor, coalesce(:lease_now::timestamptz, now()),
    :expires_at)
ON CONFLICT (digest) DO NOTHING
RETURNING tenant, id, name, prefix, scope, is_test, actor, created_at, expires_at, revoked_at, last_used_on
