-- What was read of a calendar, which is there still: whoever takes it away waits for us, or has done so.
UPDATE meetings.calendar_imports SET status = 'read', reason = NULL, entries = :entries::jsonb, skipped = :skipped::jsonb,
    entry_count = jsonb_array_length(:entries::jsonb), busy_count = :busy_count::integer,
    busy_until = :busy_until::timestamptz,
    read_at = CASE WHEN :is_new::boolean THEN coalesce(:now::timestamptz, now()) ELSE read_at END,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
RETURNING user_id
