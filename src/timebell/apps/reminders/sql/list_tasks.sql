-- A person's tasks, the oldest first; without is_all only those that may be seen by now. One that is due at no time may.
SELECT t.id, t.user_id, t.title, t.description, t.category, t.duration, t.priority, t.due_at, t.show_before_due_time,
    t.visible_from, t.completed_at, t.created_at, t.updated_at, l.schedule_id, l.occurrence_id
FROM reminders.tasks t LEFT JOIN reminders.task_links l ON l.tenant = t.tenant AND l.task_id = t.id
WHERE t.tenant = :tenant::text AND t.user_id = :user_id::uuid
    AND t.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND (:is_all::boolean OR t.visible_from IS NULL OR t.visible_from <= coalesce(:now::timestamptz, now()))
    AND (:is_completed::boolean IS NULL OR (t.completed_at IS NOT NULL) = :is_completed::boolean)
ORDER BY t.id LIMIT :limit::integer + 1
