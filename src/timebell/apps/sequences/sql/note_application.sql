-- How far it has come; counts is what it has changed by now, in all.
UPDATE sequences.applications
SET done_count = done_count + :done_count::integer, counts = :counts::jsonb,
    finished_at = CASE WHEN :is_over::boolean THEN coalesce(:now::timestamptz, now()) END
WHERE tenant = :tenant::text AND id = :id::uuid
