-- Keeps a reply; one that has expired gives way.
INSERT INTO timebell_web.replies AS r (tenant, caller, operation, key, fingerprint, status, media_type, headers, body,
    created_at, expires_at)
VALUES (:tenant, :caller, :operation, :key, :fingerprint, :status, :media_type, :headers::jsonb, :body,
    coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now()) + make_interval(secs => :kept_seconds))
ON CONFLICT (tenant, caller, operation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, media_type = excluded.media_type,
    headers = excluded.headers, body = excluded.body, created_at = excluded.created_at,
    expires_at = excluded.expires_at
RETURNING r.expires_at
