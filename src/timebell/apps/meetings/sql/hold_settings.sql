-- Whoever changes them waits for those who plan by them, so that the job which follows a change sees what those planned.
SELECT reminder_offsets_min, reminder_attempts_max
FROM meetings.meeting_settings WHERE tenant = :tenant::text
FOR SHARE
