-- Tasks that follow their occurrence to another time, go over to another occurrence, or are told otherwise.
WITH wanted AS (
    SELECT * FROM unnest(:ids::uuid[], :occurrence_ids::uuid[], :original_locals::timestamp[], :due_ats::timestamptz[])
        AS w (id, occurrence_id, original_local, due_at)
), linked AS (
    UPDATE reminders.task_links l SET occurrence_id = w.occurrence_id, original_local = w.original_local
    FROM wanted w
    WHERE l.tenant = :tenant::text AND l.task_id = w.id AND l.occurrence_id <> w.occurrence_id
)
UPDATE reminders.tasks t
SET due_at = w.due_at,
    title = CASE WHEN t.completed_at IS NULL THEN :title::text ELSE t.title END,
    show_before_due_time = :show_before_due_time::integer,
    updated_at = coalesce(:now::timestamptz, now())
FROM wanted w
WHERE t.tenant = :tenant::text AND t.id = w.id
