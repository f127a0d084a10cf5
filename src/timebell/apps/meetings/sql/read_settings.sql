SELECT reminder_offsets_min, reminder_attempts_max, revision
FROM meetings.meeting_settings WHERE tenant = :tenant::text
