-- The calendars of a person, the oldest first, and one more than asked for if there are more.
SELECT id, user_id, name, url, status, reason, skipped::text AS skipped, entry_count, busy_count, busy_until, read_at,
    created_at, updated_at
FROM meetings.calendar_imports
WHERE tenant = :tenant::text AND user_id = :user_id::uuid
    AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer + 1
