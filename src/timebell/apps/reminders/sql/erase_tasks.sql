DELETE FROM reminders.tasks WHERE tenant = :tenant::text AND user_id = :user_id::uuid
