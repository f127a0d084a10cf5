-- phase: expand
-- Meetings, who takes part in them and what became of them, and when people are busy because of them. What is owed about a
-- meeting is the kernel's, under the subject meeting:{id}.

-- root_id is the first meeting of the lineage and names it to calendars; sequence counts what they have to hear of.
CREATE TABLE meetings.meeting_requests (
    tenant            text NOT NULL,
    id                uuid NOT NULL,
    requester_id      uuid NOT NULL,
    title             text NOT NULL,
    description       text NOT NULL DEFAULT '',
    location          text,
    timezone          text NOT NULL,
    proposed_slots    jsonb NOT NULL CHECK (jsonb_typeof(proposed_slots) = 'array'),
    accepted_start    timestamptz,
    accepted_end      timestamptz,
    status            text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'accepted', 'denied', 'rescheduled', 'cancelled', 'completed')),
    parent_meeting_id uuid,
    root_id           uuid NOT NULL,
    sequence          integer NOT NULL DEFAULT 0 CHECK (sequence >= 0),
    revision          integer NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, parent_meeting_id) REFERENCES meetings.meeting_requests (tenant, id),
    CHECK ((accepted_start IS NULL) = (accepted_end IS NULL)),
    CHECK (accepted_end > accepted_start),
    CHECK (accepted_start IS NOT NULL OR status NOT IN ('accepted', 'completed')),
    CHECK (accepted_start IS NULL OR status NOT IN ('pending', 'denied'))
);
-- A meeting is rescheduled once: never two children of one parent.
CREATE UNIQUE INDEX idx_meeting_requests_parent ON meetings.meeting_requests (tenant, parent_meeting_id)
    WHERE parent_meeting_id IS NOT NULL;
CREATE INDEX idx_meeting_requests_root ON meetings.meeting_requests (tenant, root_id, id);
CREATE INDEX idx_meeting_requests_accepted ON meetings.meeting_requests (tenant, id) WHERE status = 'accepted';

-- The edges between states, whoever writes: the rule in Python is asked first and gives better answers.
CREATE FUNCTION meetings.check_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (OLD.status, NEW.status) IN (
        ('pending', 'accepted'), ('pending', 'denied'), ('pending', 'rescheduled'), ('pending', 'cancelled'),
        ('accepted', 'completed'), ('accepted', 'cancelled'), ('accepted', 'rescheduled')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a meeting that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'meeting_status';
END $$;
REVOKE ALL ON FUNCTION meetings.check_status() FROM PUBLIC;
CREATE TRIGGER meeting_status BEFORE UPDATE OF status ON meetings.meeting_requests
    FOR EACH ROW EXECUTE FUNCTION meetings.check_status();

CREATE TABLE meetings.meeting_participants (
    tenant       text NOT NULL,
    meeting_id   uuid NOT NULL,
    recipient_id uuid NOT NULL,
    added_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, meeting_id, recipient_id),
    FOREIGN KEY (tenant, meeting_id) REFERENCES meetings.meeting_requests (tenant, id)
);
CREATE INDEX idx_meeting_participants_recipient ON meetings.meeting_participants (tenant, recipient_id, meeting_id);

-- What happened, which nobody may change: only SELECT and INSERT are granted.
CREATE TABLE meetings.meeting_status_events (
    tenant      text NOT NULL,
    id          uuid NOT NULL,
    meeting_id  uuid NOT NULL,
    from_status text NOT NULL,
    to_status   text NOT NULL,
    reason      text,
    actor       text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, meeting_id) REFERENCES meetings.meeting_requests (tenant, id)
);
CREATE INDEX idx_meeting_status_events_meeting ON meetings.meeting_status_events (tenant, meeting_id, id);

CREATE TABLE meetings.meeting_reschedule_events (
    tenant              text NOT NULL,
    id                  uuid NOT NULL,
    original_meeting_id uuid NOT NULL,
    new_meeting_id      uuid NOT NULL,
    reason              text,
    new_slots           jsonb NOT NULL,
    actor               text NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, original_meeting_id),
    FOREIGN KEY (tenant, original_meeting_id) REFERENCES meetings.meeting_requests (tenant, id),
    FOREIGN KEY (tenant, new_meeting_id) REFERENCES meetings.meeting_requests (tenant, id)
);

-- What a tenant decided; without a row the defaults of MeetingSettings hold.
CREATE TABLE meetings.meeting_settings (
    tenant                text PRIMARY KEY,
    reminder_offsets_min  integer[] NOT NULL,
    reminder_attempts_max integer NOT NULL CHECK (reminder_attempts_max >= 1),
    updated_at            timestamptz NOT NULL
);

-- A person's number, since ranges of numbers can be compared by an exclusion constraint without any extension, and ids
-- cannot.
CREATE TABLE meetings.people (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    number       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    PRIMARY KEY (tenant, recipient_id)
);

-- When a person is taken: by a meeting that was accepted, or for a short while by a slot that somebody holds. Touching ends
-- do not overlap. The constraint has the last word when several book at once.
CREATE TABLE meetings.busy (
    tenant       text NOT NULL,
    number       bigint NOT NULL,
    recipient_id uuid NOT NULL,
    during       tstzrange NOT NULL CHECK (NOT isempty(during) AND lower_inc(during) AND NOT upper_inc(during)),
    kind         text NOT NULL CHECK (kind IN ('meeting', 'hold')),
    meeting_id   uuid NOT NULL,
    held_by      uuid,
    expires_at   timestamptz,
    PRIMARY KEY (tenant, meeting_id, number, during),
    FOREIGN KEY (tenant, recipient_id) REFERENCES meetings.people (tenant, recipient_id),
    FOREIGN KEY (tenant, meeting_id) REFERENCES meetings.meeting_requests (tenant, id),
    CHECK ((kind = 'hold') = (expires_at IS NOT NULL AND held_by IS NOT NULL)),
    CONSTRAINT busy_once EXCLUDE USING gist (int8range(number, number, '[]') WITH &&, during WITH &&)
);
CREATE INDEX idx_busy_expires_at ON meetings.busy (expires_at) WHERE expires_at IS NOT NULL;

-- The reminders of meetings as the source has them. One is a job of the kernel while it is owed, and a line of its log when
-- it came to an end; its step says of which type it is and for whom, and its notification what was told. Those that were
-- past when they would have been planned were never owed. A reminder counts as sent where any channel outside took it, as
-- failed where all of those failed or it was too late, and as sent where only the inbox was asked.
CREATE VIEW meetings.reminder_jobs WITH (security_invoker = true) AS
SELECT j.id, m.id AS meeting_id, m.tenant AS organization_id, split_part(j.step, ':', 2)::uuid AS recipient_id,
    split_part(j.step, ':', 1) AS reminder_type, j.due_at AS scheduled_at,
    CASE WHEN j.is_owed THEN 'pending' WHEN d.is_told_outside THEN 'sent' WHEN d.is_failed THEN 'failed'
        WHEN d.is_told_inside THEN 'sent' WHEN n.reason = 'expired' OR j.state IN ('expired', 'dead') THEN 'failed'
        ELSE 'cancelled' END AS status,
    CASE WHEN NOT j.is_owed AND NOT coalesce(d.is_told_outside, false)
        THEN CASE WHEN n.settled_at >= n.expires_at THEN 'expired' ELSE coalesce(d.reason, j.reason, n.reason) END
        END AS reason,
    coalesce(d.failure_count, 0) AS attempts, d.last_attempt_at,
    CASE WHEN j.is_owed THEN j.run_at END AS next_attempt_at, coalesce(d.channels, '{}') AS channels,
    n.id AS notification_id, coalesce(n.created_at, j.noted_at) AS created_at,
    greatest(j.noted_at, d.updated_at) AS updated_at
FROM meetings.meeting_requests m
CROSS JOIN LATERAL (
    SELECT o.id, o.step, o.due_at, o.run_at, o.created_at AS noted_at, true AS is_owed, 'pending' AS state,
        NULL::text AS reason
    FROM timebell.jobs o
    WHERE o.tenant = m.tenant AND o.subject = 'meeting:' || m.id AND o.step LIKE '%\_before:%'
    UNION ALL (
        SELECT DISTINCT ON (l.id) l.id, l.step, l.due_at, NULL::timestamptz, l.finished_at, false, l.state, l.reason
        FROM timebell.job_log l
        WHERE l.tenant = m.tenant AND l.subject = 'meeting:' || m.id AND l.step LIKE '%\_before:%'
            AND l.state NOT IN ('pending', 'skipped') AND NOT EXISTS (SELECT FROM timebell.jobs o WHERE o.id = l.id)
        ORDER BY l.id, l.logged_at DESC, l.version DESC
    )
) j
LEFT JOIN timebell_notify.notifications n ON n.tenant = m.tenant AND n.id = j.id
LEFT JOIN LATERAL (
    SELECT bool_or(v.channel <> 'inbox' AND v.state IN ('sent', 'delivered', 'suppressed', 'uncertain'))
            AS is_told_outside,
        bool_or(v.channel = 'inbox' AND v.state = 'sent') AS is_told_inside, bool_or(v.state = 'failed') AS is_failed,
        min(v.reason) FILTER (WHERE v.state = 'failed') AS reason, max(v.failure_count) AS failure_count,
        max(t.started_at) AS last_attempt_at, max(v.updated_at) AS updated_at,
        array_agg(DISTINCT v.channel) FILTER (WHERE v.state <> 'skipped') AS channels
    FROM timebell_notify.deliveries v
    LEFT JOIN timebell_notify.attempts t ON t.tenant = v.tenant AND t.delivery_id = v.id
    WHERE v.tenant = m.tenant AND v.notification_id = j.id
) d ON true;

-- The audit trail of meetings, as the source calls it.
CREATE VIEW meetings.audit_events WITH (security_invoker = true) AS
SELECT e.id, m.id AS meeting_id, m.tenant AS organization_id, e.name AS action, e.actor, e.data, e.correlation_id,
    e.occurred_at AS created_at
FROM meetings.meeting_requests m
JOIN timebell.events e ON e.tenant = m.tenant AND e.subject = 'meeting:' || m.id;

-- The wall between tenants, as in front of the kernel's tables.
DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['meeting_requests', 'meeting_participants', 'meeting_status_events',
        'meeting_reschedule_events', 'meeting_settings', 'people', 'busy'] LOOP
        place := 'meetings.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE ON meetings.meeting_requests, meetings.meeting_settings TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON meetings.meeting_participants, meetings.people TO {app_role}, {api_role};
GRANT SELECT, INSERT, UPDATE, DELETE ON meetings.busy TO {app_role}, {api_role};
GRANT SELECT, INSERT ON meetings.meeting_status_events, meetings.meeting_reschedule_events TO {app_role}, {api_role};
GRANT SELECT ON meetings.reminder_jobs, meetings.audit_events TO {app_role}, {api_role};
GRANT SELECT ON meetings.meeting_requests, meetings.meeting_participants, meetings.meeting_status_events,
    meetings.meeting_reschedule_events, meetings.meeting_settings, meetings.people, meetings.busy,
    meetings.reminder_jobs, meetings.audit_events TO {read_role};
-- Whoever backs up reads how far the numbers have come.
GRANT SELECT ON SEQUENCE meetings.people_number_seq TO {read_role};
