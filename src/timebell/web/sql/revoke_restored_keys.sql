-- Which keys were revoked since the backup nobody knows, so none of them opens anything but the one that the settings name.
WITH revoked AS (
    UPDATE timebell_web.api_keys SET revoked_at = coalesce(:lease_now::timestamptz, now())
    WHERE revoked_at IS NULL AND (:kept::bytea IS NULL OR digest <> :kept::bytea)
    RETURNING 1
)
SELECT count(*) FROM revoked
