INSERT INTO meetings.meeting_settings (tenant, reminder_offsets_min, reminder_attempts_max, updated_at)
VALUES (:tenant::text, :reminder_offsets_min::integer[], :reminder_attempts_max::integer,
    coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO NOTHING
