-- It could not be read; what was read before holds on.
UPDATE meetings.calendar_imports SET status = 'failed', reason = :reason::text,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
