-- Whether the task of an occurrence is done; no row where it has none.
SELECT t.completed_at
FROM reminders.task_links l JOIN reminders.tasks t ON t.tenant = l.tenant AND t.id = l.task_id
WHERE l.tenant = :tenant::text AND l.occurrence_id = :occurrence_id::uuid
