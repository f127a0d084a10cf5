-- A person's blocks, the oldest first.
SELECT id, user_id, day_of_week, start_time::interval, end_time::interval, timezone, is_recurring, valid_from, valid_until,
    revision, created_at, updated_at
FROM meetings.meeting_availability_blocks
WHERE tenant = :tenant::text AND user_id = :user_id::uuid
    AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer + 1
