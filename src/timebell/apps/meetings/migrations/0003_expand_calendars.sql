-- phase: expand
-- The calendars that people have elsewhere, as far as they say when somebody is busy, and the addresses of those that they
-- have here.

-- An upload has no url. entries are the times that the calendar takes, with their recurrences and without a word of what they
-- are about; imported_busy has what they come to, as far ahead as busy_until.
CREATE TABLE meetings.calendar_imports (
    tenant      text NOT NULL,
    id          uuid NOT NULL,
    user_id     uuid NOT NULL,
    name        text NOT NULL,
    url         text,
    status      text NOT NULL CHECK (status IN ('waiting', 'read', 'failed')),
    reason      text,
    entries     jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(entries) = 'array'),
    skipped     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(skipped) = 'object'),
    entry_count integer NOT NULL DEFAULT 0,
    busy_count  integer NOT NULL DEFAULT 0,
    busy_until  timestamptz,
    read_at     timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK ((status = 'failed') = (reason IS NOT NULL))
);
CREATE INDEX idx_calendar_imports_user ON meetings.calendar_imports (tenant, user_id, id);

-- How often a person had the address of their calendar made anew; only the last one is good. Without a row it is the first.
CREATE TABLE meetings.calendar_feeds (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    generation   integer NOT NULL CHECK (generation >= 1),
    PRIMARY KEY (tenant, recipient_id)
);

ALTER TABLE meetings.calendar_imports ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON meetings.calendar_imports TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON meetings.calendar_imports FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON meetings.calendar_imports TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

ALTER TABLE meetings.calendar_feeds ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON meetings.calendar_feeds TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON meetings.calendar_feeds FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON meetings.calendar_feeds TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT, UPDATE, DELETE ON meetings.calendar_imports, meetings.calendar_feeds TO {app_role}, {api_role};
GRANT SELECT ON meetings.calendar_imports, meetings.calendar_feeds TO {read_role};
