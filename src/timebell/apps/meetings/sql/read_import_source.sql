-- What a calendar is read from again: where it lies, or what was read of it. What was never read counts from when it was made.
SELECT user_id, url, entries::text AS entries, skipped::text AS skipped, coalesce(read_at, created_at) AS read_at,
    coalesce(:now::timestamptz, now()) AS now
FROM meetings.calendar_imports WHERE tenant = :tenant::text AND id = :id::uuid
