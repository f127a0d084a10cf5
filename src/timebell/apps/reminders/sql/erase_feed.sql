DELETE FROM reminders.schedule_feeds WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
