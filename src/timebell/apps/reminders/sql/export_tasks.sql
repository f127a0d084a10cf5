-- What is kept about a person's tasks, in the order of their ids.
SELECT t.id, (to_jsonb(t) || jsonb_build_object(
    'is', 'task', 'schedule_id', l.schedule_id, 'occurrence_id', l.occurrence_id))::text AS line
FROM reminders.tasks t LEFT JOIN reminders.task_links l ON l.tenant = t.tenant AND l.task_id = t.id
WHERE t.tenant = :tenant::text AND t.user_id = :user_id::uuid
    AND t.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY t.id LIMIT :limit::integer + 1
