-- phase: expand
-- What there is to do. When it is due, and who is reminded of it, is the business of schedules, which are the kernel's.

-- show_before_due_time is in minutes. visible_from is kept by the database; elapsed time is counted in UTC, where it does
-- not depend on anybody's timezone, as a generated column must not.
CREATE TABLE reminders.tasks (
    tenant               text NOT NULL,
    id                   uuid NOT NULL,
    user_id              uuid NOT NULL,
    title                text NOT NULL,
    description          text NOT NULL DEFAULT '',
    category             text,
    duration             integer CHECK (duration >= 0),
    priority             text,
    due_at               timestamptz,
    show_before_due_time integer CHECK (show_before_due_time >= 0),
    visible_from         timestamptz GENERATED ALWAYS AS (
        ((due_at AT TIME ZONE 'UTC') - make_interval(mins => coalesce(show_before_due_time, 0))) AT TIME ZONE 'UTC'
    ) STORED,
    completed_at         timestamptz,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX idx_tasks_user ON reminders.tasks (tenant, user_id, id);
CREATE INDEX idx_tasks_visible_from ON reminders.tasks (tenant, user_id, visible_from);

-- The task of an occurrence: one, which the key sees to. original_local is the wall time that the occurrence is known by,
-- so that a task can go over to the occurrence that takes its day when a schedule is edited.
CREATE TABLE reminders.task_links (
    tenant         text NOT NULL,
    occurrence_id  uuid NOT NULL,
    task_id        uuid NOT NULL,
    schedule_id    uuid NOT NULL,
    original_local timestamp NOT NULL,
    PRIMARY KEY (tenant, occurrence_id),
    FOREIGN KEY (tenant, task_id) REFERENCES reminders.tasks (tenant, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX idx_task_links_task_id ON reminders.task_links (tenant, task_id);
CREATE INDEX idx_task_links_schedule_id ON reminders.task_links (tenant, schedule_id);

-- The wall between tenants, as in front of the kernel's tables.
ALTER TABLE reminders.tasks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON reminders.tasks TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON reminders.tasks FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON reminders.tasks TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

ALTER TABLE reminders.task_links ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON reminders.task_links TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON reminders.task_links FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON reminders.task_links TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT, UPDATE, DELETE ON reminders.tasks, reminders.task_links TO {app_role}, {api_role};
GRANT SELECT ON reminders.tasks, reminders.task_links TO {read_role};
