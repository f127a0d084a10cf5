-- phase: expand
-- What needs a person: an alert is a row from the first time that it was seen until long after it has closed. Whoever is
-- told of it is told from here, so nothing is lost while nobody can be told.

-- One without opened_at was seen and may be over before it has lasted long enough to open. is_by_hand: no question closes
-- it, so whoever acknowledges it does. is_of_engine: it is about the installation, and for those who run it. told is how
-- far the operators have been told. Names are compared byte by byte, as Python does.
CREATE TABLE timebell.alerts (
    id              uuid PRIMARY KEY,
    tenant          text COLLATE "C" NOT NULL,
    app             text NOT NULL,
    rule            text COLLATE "C" NOT NULL,
    severity        text NOT NULL CHECK (severity IN ('critical', 'warning')),
    subject         text COLLATE "C" NOT NULL,
    detail          text NOT NULL,
    is_of_engine    boolean NOT NULL,
    is_by_hand      boolean NOT NULL,
    seen_at         timestamptz NOT NULL,
    opened_at       timestamptz,
    closed_at       timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by text,
    told            text NOT NULL DEFAULT 'nothing' CHECK (told IN ('nothing', 'opening', 'all')),
    CHECK (closed_at IS NULL OR opened_at IS NOT NULL),
    CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE UNIQUE INDEX alerts_one ON timebell.alerts (rule, tenant, subject) WHERE closed_at IS NULL;
CREATE INDEX alerts_open ON timebell.alerts (tenant, opened_at, id) WHERE closed_at IS NULL AND opened_at IS NOT NULL;
CREATE INDEX alerts_tenant ON timebell.alerts (tenant, opened_at, id) WHERE opened_at IS NOT NULL;
CREATE INDEX alerts_untold ON timebell.alerts (opened_at, id) WHERE opened_at IS NOT NULL AND told <> 'all';
CREATE INDEX alerts_age ON timebell.alerts (closed_at, id) WHERE closed_at IS NOT NULL;

ALTER TABLE timebell.alerts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON timebell.alerts TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON timebell.alerts FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON timebell.alerts TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));
GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.alerts TO {app_role};
GRANT SELECT, INSERT, UPDATE ON timebell.alerts TO {api_role};
GRANT SELECT ON timebell.alerts TO {read_role};

-- When the questions of an app were asked last, by whichever node came first. Nobody holds a lock meanwhile.
CREATE TABLE timebell.alert_rounds (
    app      text PRIMARY KEY,
    asked_at timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.alert_rounds TO {app_role};
GRANT SELECT ON timebell.alert_rounds TO {read_role};

-- What a node says of itself with each beat: when its loops made their last pass, which queues it cannot serve and why,
-- and how far its own clock is from the database's. Null where a node of an older release does not say.
ALTER TABLE timebell.nodes
    ADD COLUMN passed_at timestamptz,
    ADD COLUMN planned_at timestamptz,
    ADD COLUMN held text[],
    ADD COLUMN clock_off_seconds double precision;

-- Find what did not run without looking at what did.
CREATE INDEX schedules_parked_id ON timebell.schedules (id) WHERE state = 'parked';
CREATE INDEX occurrences_missed ON timebell.occurrences (occurs_at, id) WHERE state = 'missed';
