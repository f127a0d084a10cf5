-- Whether a key may still be used. Keys live in real time, whatever a sandbox's clock says.
SELECT EXISTS (
    SELECT FROM timebell_web.api_keys
    WHERE tenant = :tenant::text AND id = :id::uuid AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > coalesce(:lease_now::timestamptz, now()))
) AS is_usable
