-- The key with a digest, if it may be used. Keys live in real time, whatever a sandbox's clock says.
SELECT tenant, id, prefix, scope, last_used_on,
    (coalesce(:lease_now::timestamptz, now()) AT TIME ZONE 'UTC')::date AS today
FROM timebell_web.api_keys
WHERE digest = :digest AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > coalesce(:lease_now::timestamptz, now()))
