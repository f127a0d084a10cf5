-- phase: expand
-- How often a person had the address of their calendar made anew; only the last one is good. Without a row it is the first.
CREATE TABLE reminders.schedule_feeds (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    generation   integer NOT NULL CHECK (generation >= 1),
    PRIMARY KEY (tenant, recipient_id)
);

ALTER TABLE reminders.schedule_feeds ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON reminders.schedule_feeds TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON reminders.schedule_feeds FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON reminders.schedule_feeds TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT, UPDATE, DELETE ON reminders.schedule_feeds TO {app_role}, {api_role};
GRANT SELECT ON reminders.schedule_feeds TO {read_role};
