INSERT INTO meetings.meeting_settings AS s (tenant, reminder_offsets_min, reminder_attempts_max, updated_at)
VALUES (:tenant::text, :reminder_offsets_min::integer[], :reminder_attempts_max::integer,
    coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO UPDATE
SET reminder_offsets_min = excluded.reminder_offsets_min, reminder_attempts_max = excluded.reminder_attempts_max,
    revision = s.revision + 1, updated_at = excluded.updated_at
