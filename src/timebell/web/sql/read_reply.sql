-- What was answered to a request with this key, while it is kept. Asked after the lock was had, so that what the request
-- before it wrote is seen.
SELECT fingerprint, status, media_type, headers, body, expires_at
FROM timebell_web.replies
WHERE tenant = :tenant AND caller = :caller AND operation = :operation AND key = :key
    AND expires_at > coalesce(:now::timestamptz, now())
