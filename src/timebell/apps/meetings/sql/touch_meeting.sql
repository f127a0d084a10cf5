-- Who takes part has changed, and calendars have to hear of it.
UPDATE meetings.meeting_requests
SET sequence = sequence + 1, revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
