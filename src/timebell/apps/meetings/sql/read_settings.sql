SELECT reminder_offsets_min, reminder_attempts_max
FROM meetings.meeting_settings WHERE tenant = :tenant::text
