-- phase: expand
-- When people may be met, what their own calendars say, and what is needed to find quickly who is taken when.

-- The hours of a weekday, 0 for Sunday, as the clocks of a timezone show them. end_time may be 24:00, so that two blocks meet
-- at midnight. One that does not recur is on the first such weekday since valid_from.
CREATE TABLE meetings.meeting_availability_blocks (
    tenant       text NOT NULL,
    id           uuid NOT NULL,
    user_id      uuid NOT NULL,
    day_of_week  integer NOT NULL CHECK (day_of_week BETWEEN 0 AND 6),
    start_time   time NOT NULL,
    end_time     time NOT NULL,
    timezone     text NOT NULL,
    is_recurring boolean NOT NULL DEFAULT true,
    valid_from   date,
    valid_until  date,
    revision     integer NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK (end_time > start_time),
    CHECK (valid_until >= valid_from),
    CHECK (is_recurring OR valid_from IS NOT NULL)
);
CREATE INDEX idx_meeting_availability_blocks_user ON meetings.meeting_availability_blocks (tenant, user_id, id);

-- When a calendar that somebody imported says that they are busy. It may overlap itself and what was accepted before.
CREATE TABLE meetings.imported_busy (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    import_id    uuid NOT NULL,
    during       tstzrange NOT NULL CHECK (NOT isempty(during) AND lower_inc(during) AND NOT upper_inc(during)),
    ends_at      timestamptz GENERATED ALWAYS AS (upper(during)) STORED
);
CREATE INDEX idx_imported_busy_recipient ON meetings.imported_busy (tenant, recipient_id, ends_at);
CREATE INDEX idx_imported_busy_import ON meetings.imported_busy (tenant, import_id);

-- Behind the wall an index on a range serves nobody, because its operators might tell what they see; one on instants does.
ALTER TABLE meetings.busy
    ADD COLUMN hold_id uuid,
    ADD COLUMN ends_at timestamptz GENERATED ALWAYS AS (upper(during)) STORED,
    ADD CHECK ((kind = 'hold') = (hold_id IS NOT NULL));
CREATE INDEX idx_busy_recipient ON meetings.busy (tenant, recipient_id, ends_at);

ALTER TABLE meetings.meeting_availability_blocks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON meetings.meeting_availability_blocks TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON meetings.meeting_availability_blocks FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON meetings.meeting_availability_blocks TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

ALTER TABLE meetings.imported_busy ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON meetings.imported_busy TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON meetings.imported_busy FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON meetings.imported_busy TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT, UPDATE, DELETE ON meetings.meeting_availability_blocks TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON meetings.imported_busy TO {app_role}, {api_role};
-- Nothing of a person's number is ever changed; whoever books locks the row, and that asks for this right.
GRANT UPDATE (number) ON meetings.people TO {app_role}, {api_role};
GRANT SELECT ON meetings.meeting_availability_blocks, meetings.imported_busy TO {read_role};
