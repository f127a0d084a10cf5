INSERT INTO reminders.tasks (tenant, id, user_id, title, description, category, duration, priority, due_at,
    show_before_due_time, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :user_id::uuid, :title::text, :description::text, :category::text, :duration::integer,
    :priority::text, :due_at::timestamptz, :show_before_due_time::integer, coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now()))
RETURNING id, user_id, title, description, category, duration, priority, due_at, show_before_due_time, visible_from,
    completed_at, created_at, updated_at, NULL::uuid AS schedule_id, NULL::uuid AS occurrence_id
