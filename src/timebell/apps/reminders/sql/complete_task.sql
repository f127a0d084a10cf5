-- Done once; a second time changes nothing.
UPDATE reminders.tasks
SET completed_at = coalesce(:now::timestamptz, now()), updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND id = :id::uuid AND completed_at IS NULL
RETURNING id
