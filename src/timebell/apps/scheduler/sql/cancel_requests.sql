-- Locked before, and pending; or tombstones, which last a day longer.
UPDATE scheduler.requests SET cancelled_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = ANY (:ids::text[])
