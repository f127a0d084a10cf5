-- Which address of a person's calendar is good.
SELECT generation FROM reminders.schedule_feeds WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
