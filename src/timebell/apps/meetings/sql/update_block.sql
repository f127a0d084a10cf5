UPDATE meetings.meeting_availability_blocks
SET day_of_week = :day_of_week::integer, start_time = :start_time::text::time, end_time = :end_time::text::time,
    timezone = :timezone::text, is_recurring = :is_recurring::boolean, valid_from = :valid_from::date,
    valid_until = :valid_until::date, revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND id = :id::uuid
RETURNING id, user_id, day_of_week, start_time::interval, end_time::interval, timezone, is_recurring, valid_from, valid_until,
    revision, created_at, updated_at
