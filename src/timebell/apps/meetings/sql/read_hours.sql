-- The blocks of some people, those of one after those of another.
SELECT user_id, day_of_week, start_time::interval, end_time::interval, timezone, is_recurring, valid_from, valid_until
FROM meetings.meeting_availability_blocks
WHERE tenant = :tenant::text AND user_id = ANY (:people::uuid[])
ORDER BY user_id, id
