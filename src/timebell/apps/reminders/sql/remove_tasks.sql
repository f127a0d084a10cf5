-- What was done meanwhile stays.
DELETE FROM reminders.tasks
WHERE tenant = :tenant::text AND id = ANY (:ids::uuid[]) AND completed_at IS NULL
