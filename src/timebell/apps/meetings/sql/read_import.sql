SELECT id, user_id, name, url, status, reason, skipped::text AS skipped, entry_count, busy_count, busy_until, read_at,
    created_at, updated_at
FROM meetings.calendar_imports
WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND id = :id::uuid
