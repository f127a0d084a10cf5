-- No row where the person has as many blocks as anybody may have.
INSERT INTO meetings.meeting_availability_blocks (tenant, id, user_id, day_of_week, start_time, end_time, timezone,
    is_recurring, valid_from, valid_until, created_at, updated_at)
SELECT :tenant::text, :id::uuid, :user_id::uuid, :day_of_week::integer, :start_time::text::time, :end_time::text::time,
    :timezone::text, :is_recurring::boolean, :valid_from::date, :valid_until::date, coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now())
WHERE :blocks_max::integer > (SELECT count(*) FROM meetings.meeting_availability_blocks
    WHERE tenant = :tenant::text AND user_id = :user_id::uuid)
RETURNING id, user_id, day_of_week, start_time::interval, end_time::interval, timezone, is_recurring, valid_from, valid_until,
    revision, created_at, updated_at
