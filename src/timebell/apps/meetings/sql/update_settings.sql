-- What is null stays as it is, so that of two who change different things at once neither undoes the other.
UPDATE meetings.meeting_settings
SET reminder_offsets_min = coalesce(:reminder_offsets_min::integer[], reminder_offsets_min),
    reminder_attempts_max = coalesce(:reminder_attempts_max::integer, reminder_attempts_max),
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text
RETURNING reminder_offsets_min, reminder_attempts_max
