-- The tasks of a schedule that are still to come, and those of the occurrences that are.
SELECT t.id, t.title, t.due_at, t.show_before_due_time, t.completed_at, l.occurrence_id, l.original_local
FROM reminders.task_links l JOIN reminders.tasks t ON t.tenant = l.tenant AND t.id = l.task_id
WHERE l.tenant = :tenant::text AND l.schedule_id = :schedule_id::uuid
    AND (t.due_at >= :from_at::timestamptz OR l.occurrence_id = ANY (:occurrence_ids::uuid[]))
ORDER BY l.original_local, t.id
