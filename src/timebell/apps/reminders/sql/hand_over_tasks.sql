-- Where a schedule was split, its tasks from there on are those of the one that goes on.
UPDATE reminders.task_links SET schedule_id = :new_id::uuid
WHERE tenant = :tenant::text AND schedule_id = :schedule_id::uuid AND original_local >= :from_local::timestamp
