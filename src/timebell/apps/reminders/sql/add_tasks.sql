-- A task for each occurrence that has none. The link is written first: whoever has it, has the task.
WITH wanted AS (
    SELECT * FROM unnest(:ids::uuid[], :occurrence_ids::uuid[], :original_locals::timestamp[], :due_ats::timestamptz[])
        AS w (id, occurrence_id, original_local, due_at)
), linked AS (
    INSERT INTO reminders.task_links (tenant, occurrence_id, task_id, schedule_id, original_local)
    SELECT :tenant::text, occurrence_id, id, :schedule_id::uuid, original_local FROM wanted
    ON CONFLICT (tenant, occurrence_id) DO NOTHING
    RETURNING task_id
)
INSERT INTO reminders.tasks (tenant, id, user_id, title, due_at, show_before_due_time, created_at, updated_at)
SELECT :tenant::text, w.id, :user_id::uuid, :title::text, w.due_at, :show_before_due_time::integer,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
FROM wanted w JOIN linked l ON l.task_id = w.id
RETURNING id
