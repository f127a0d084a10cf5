-- Holds that ended do not count, but for the constraint, which does not know the time.
DELETE FROM meetings.busy
WHERE tenant = :tenant::text AND recipient_id = ANY (:people::uuid[]) AND expires_at <= coalesce(:now::timestamptz, now())
