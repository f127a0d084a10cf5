-- phase: expand
-- Sequences of messages, the subjects that entered them, and each message with what was planned for it. When a message is
-- sent, and whether it was, is the business of the kernel's jobs and of notify: a row here says what is owed, and what
-- became of it once that is known for good.

-- revision counts the changes; version is the one that whoever enters the sequence from now on begins with.
CREATE TABLE sequences.sequences (
    tenant        text NOT NULL,
    id            uuid NOT NULL,
    name          text NOT NULL,
    trigger_event text NOT NULL,
    subtype       text,
    is_active     boolean NOT NULL,
    version       integer NOT NULL DEFAULT 1,
    revision      integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX sequences_trigger ON sequences.sequences (tenant, trigger_event, id) WHERE is_active AND deleted_at IS NULL;

-- A version never changes. steps and conditions are as callers write them.
CREATE TABLE sequences.sequence_versions (
    tenant      text NOT NULL,
    sequence_id uuid NOT NULL,
    version     integer NOT NULL,
    conditions  jsonb NOT NULL DEFAULT '{}',
    steps       jsonb NOT NULL CHECK (jsonb_typeof(steps) = 'array'),
    actor       text,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, sequence_id, version),
    FOREIGN KEY (tenant, sequence_id) REFERENCES sequences.sequences (tenant, id)
);

-- What messages are about: booking:{id}, or sequence:{whatever a caller names}. id is the order of their coming. dates_at is
-- when the dates were last decided, by which it is measured how many days they are out.
CREATE TABLE sequences.subjects (
    tenant     text NOT NULL,
    subject    text COLLATE "C" NOT NULL,
    id         uuid NOT NULL,
    is_booking boolean NOT NULL,
    status     text,
    subtype    text,
    starts_at  timestamptz,
    ends_at    timestamptz,
    timezone   text NOT NULL,
    facts      jsonb NOT NULL DEFAULT '{}',
    dates_at   timestamptz NOT NULL,
    revision   integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, subject),
    UNIQUE (tenant, id),
    CHECK (NOT is_booking OR status IN ('created', 'confirmed', 'checked_in', 'completed', 'cancelled')),
    CHECK (NOT is_booking OR starts_at IS NOT NULL AND ends_at >= starts_at)
) WITH (fillfactor = 85);
CREATE INDEX subjects_bookings ON sequences.subjects (tenant, id) WHERE is_booking;
CREATE INDEX subjects_status ON sequences.subjects (tenant, status, id) WHERE is_booking;
CREATE INDEX subjects_over ON sequences.subjects (greatest(updated_at, coalesce(ends_at, starts_at)));

-- The edges between states of a booking, whoever writes: the rule in Python is asked first and gives better answers.
CREATE FUNCTION sequences.check_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT NEW.is_booking OR OLD.status IS NOT DISTINCT FROM NEW.status OR (OLD.status, NEW.status) IN (
        ('created', 'confirmed'), ('confirmed', 'checked_in'), ('checked_in', 'completed'), ('created', 'cancelled'),
        ('confirmed', 'cancelled'), ('checked_in', 'cancelled')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a booking that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'booking_status';
END $$;
REVOKE ALL ON FUNCTION sequences.check_status() FROM PUBLIC;
CREATE TRIGGER booking_status BEFORE UPDATE OF status ON sequences.subjects
    FOR EACH ROW EXECUTE FUNCTION sequences.check_status();

-- Whom a subject concerns; the one of the least ordinal is the primary.
CREATE TABLE sequences.subject_people (
    tenant       text NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    recipient_id uuid NOT NULL,
    role         text NOT NULL,
    ordinal      smallint NOT NULL,
    PRIMARY KEY (tenant, subject, recipient_id),
    FOREIGN KEY (tenant, subject) REFERENCES sequences.subjects (tenant, subject)
);
CREATE INDEX subject_people_person ON sequences.subject_people (tenant, recipient_id, subject);

-- A subject that entered a sequence, with the version that it began with. entry is for those that enter it again.
CREATE TABLE sequences.enrolments (
    tenant       text NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    sequence_id  uuid NOT NULL,
    entry        integer NOT NULL DEFAULT 1,
    version      integer NOT NULL,
    event_at     timestamptz NOT NULL,
    ended_reason text,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, subject, sequence_id, entry),
    FOREIGN KEY (tenant, subject) REFERENCES sequences.subjects (tenant, subject),
    FOREIGN KEY (tenant, sequence_id, version) REFERENCES sequences.sequence_versions (tenant, sequence_id, version)
);
CREATE INDEX enrolments_sequence ON sequences.enrolments (tenant, sequence_id, subject, entry) WHERE ended_reason IS NULL;

-- One message for each step and person of an enrolment, whether it is to be sent or not. status is what was planned, until
-- it is known what became of it; settled_at is when that was written down. id is also the key of its step in the agenda of
-- the subject, and job_id the job that sends it.
CREATE TABLE sequences.messages (
    tenant        text NOT NULL,
    id            uuid NOT NULL,
    subject       text COLLATE "C" NOT NULL,
    sequence_id   uuid NOT NULL,
    entry         integer NOT NULL,
    step          text NOT NULL,
    recipient_id  uuid NOT NULL,
    channel       text NOT NULL,
    template      text NOT NULL,
    due_at        timestamptz,
    status        text NOT NULL CHECK (status IN ('scheduled', 'sent', 'failed', 'cancelled', 'skipped')),
    reason        text,
    job_id        uuid,
    sent_at       timestamptz,
    attempt_count integer NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    settled_at    timestamptz,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, subject, sequence_id, entry, step, recipient_id),
    FOREIGN KEY (tenant, subject) REFERENCES sequences.subjects (tenant, subject),
    CHECK (status <> 'scheduled' OR due_at IS NOT NULL AND job_id IS NOT NULL)
) WITH (fillfactor = 85);
CREATE INDEX by_status_scheduled ON sequences.messages (tenant, status, due_at, id);
CREATE INDEX messages_sequence ON sequences.messages (tenant, sequence_id, step, status, due_at);
CREATE INDEX messages_person ON sequences.messages (tenant, recipient_id, id);
CREATE INDEX messages_unsettled ON sequences.messages (tenant, id) WHERE status = 'scheduled';

-- A version that is applied to all who are enrolled, some at a time, and how far that has come. Without a version it is the
-- end of the sequence that is.
CREATE TABLE sequences.applications (
    tenant         text NOT NULL,
    id             uuid NOT NULL,
    sequence_id    uuid NOT NULL,
    version        integer,
    enrolled_count integer NOT NULL,
    done_count     integer NOT NULL DEFAULT 0,
    counts         jsonb NOT NULL DEFAULT '{}',
    actor          text,
    created_at     timestamptz NOT NULL,
    finished_at    timestamptz,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, sequence_id) REFERENCES sequences.sequences (tenant, id)
);
CREATE INDEX applications_sequence ON sequences.applications (tenant, sequence_id, id);

-- What bookings of a tenant do by themselves; without a row they do nothing.
CREATE TABLE sequences.booking_settings (
    tenant             text PRIMARY KEY,
    checks_in_at_start boolean NOT NULL,
    completes_at_end   boolean NOT NULL
);

-- How each message stands. What was not settled is read off the job that sends it, off its notification, and off the log;
-- each is asked once and by its index, as LIMIT 1 says, and only where the one before has no answer: that stands inside,
-- since a condition of the join is looked at when all was read. What demo mode captured was sent; of what nobody knows
-- whether it arrived, it is not said that it was.
CREATE VIEW sequences.standings WITH (security_invoker = true) AS
SELECT m.tenant, m.id, m.subject, m.sequence_id, m.entry, m.step, m.recipient_id, m.template, m.due_at, m.job_id,
    m.created_at, m.settled_at, coalesce(told.channel, m.channel) AS channel, told.channel IS NOT NULL AS is_channel_used,
    CASE WHEN m.status <> 'scheduled' THEN m.status WHEN owed.is_running THEN 'sending'
        WHEN owed.is_running IS NOT NULL THEN 'scheduled' WHEN dead.is_dead THEN 'failed'
        ELSE coalesce(CASE WHEN n.state IN ('sent', 'delivered', 'suppressed') THEN 'sent'
            WHEN n.state IN ('failed', 'uncertain') THEN 'failed' WHEN n.state = 'withdrawn' THEN 'cancelled'
            WHEN n.state = 'skipped' THEN 'skipped' END,
            CASE l.state WHEN 'cancelled' THEN 'cancelled' WHEN 'expired' THEN 'skipped' WHEN 'skipped' THEN 'skipped'
            ELSE 'sent' END) END AS status,
    CASE WHEN m.status <> 'scheduled' THEN m.reason WHEN owed.is_running IS NOT NULL THEN n.reason
        WHEN dead.is_dead THEN 'given_up' WHEN n.state IN ('sent', 'delivered') THEN NULL
        ELSE coalesce(n.reason, l.reason, m.reason) END AS reason,
    CASE WHEN m.status <> 'scheduled' THEN m.sent_at ELSE told.sent_at END AS sent_at,
    CASE WHEN m.status <> 'scheduled' THEN m.attempt_count ELSE coalesce(told.attempt_count, 0) END AS attempt_count,
    m.status = 'scheduled' AND owed.is_running IS NULL AND dead.is_dead IS NULL AS is_over
FROM sequences.messages m
LEFT JOIN LATERAL (
    SELECT j.started_by IS NOT NULL AS is_running FROM timebell.jobs j
    WHERE j.tenant = m.tenant AND j.id = m.job_id AND m.status = 'scheduled' LIMIT 1
) owed ON true
LEFT JOIN LATERAL (
    SELECT true AS is_dead FROM timebell.dead_jobs d
    WHERE d.tenant = m.tenant AND d.id = m.job_id AND m.status = 'scheduled' AND owed.is_running IS NULL LIMIT 1
) dead ON true
LEFT JOIN LATERAL (
    SELECT s.state, s.reason FROM timebell_notify.standing s
    WHERE s.tenant = m.tenant AND s.id = m.job_id AND m.status = 'scheduled' LIMIT 1
) n ON true
LEFT JOIN LATERAL (
    SELECT g.state, g.reason FROM timebell.job_log g
    WHERE g.tenant = m.tenant AND g.id = m.job_id AND g.state <> 'pending' AND m.status = 'scheduled'
        AND owed.is_running IS NULL AND n.state IS NULL
    ORDER BY g.logged_at DESC, g.version DESC LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT (array_agg(v.channel ORDER BY v.state IN ('sent', 'delivered', 'suppressed') DESC, v.updated_at DESC))[1] AS channel,
        min(coalesce(v.sent_at, v.updated_at)) FILTER (WHERE v.state IN ('sent', 'delivered', 'suppressed')) AS sent_at,
        sum(v.attempt_count)::integer AS attempt_count
    FROM timebell_notify.deliveries v
    WHERE v.tenant = m.tenant AND v.notification_id = m.job_id AND v.state <> 'skipped' AND m.status = 'scheduled'
        AND n.state IS NOT NULL
) told ON true;

-- The same with the names of the source.
CREATE VIEW sequences.message_queue WITH (security_invoker = true) AS
SELECT id, tenant AS "organizationId", sequence_id AS "sequenceId", step AS "stepKey", subject,
    CASE WHEN subject LIKE 'booking:%' THEN substr(subject, 9)::uuid END AS "bookingId", recipient_id AS "contactId",
    channel, due_at AS "scheduledFor", status, reason, template AS "templateId", sent_at AS "sentAt",
    attempt_count AS attempts
FROM sequences.standings;

CREATE VIEW sequences.guest_bookings WITH (security_invoker = true) AS
SELECT tenant, id, subtype, status, facts ->> 'eventName' AS event_name, facts ->> 'location' AS location,
    starts_at AS start_at, ends_at AS end_at, timezone AS tz, created_at, updated_at
FROM sequences.subjects WHERE is_booking;

CREATE VIEW sequences.booking_contacts WITH (security_invoker = true) AS
SELECT p.tenant, s.id AS booking_id, p.recipient_id AS contact_id, p.role,
    p.ordinal = min(p.ordinal) OVER (PARTITION BY p.tenant, p.subject) AS is_primary
FROM sequences.subject_people p JOIN sequences.subjects s ON s.tenant = p.tenant AND s.subject = p.subject
WHERE s.is_booking;

CREATE VIEW sequences.sequence_steps WITH (security_invoker = true) AS
SELECT v.tenant, v.sequence_id, v.version, s.ordinal::integer AS ordinal, s.step ->> 'key' AS key, s.step ->> 'anchor' AS anchor,
    s.step ->> 'offset' AS "offset", s.step ->> 'at' AS at, s.step ->> 'channel' AS channel,
    s.step ->> 'templateId' AS template_key, s.step -> 'conditions' AS conditions
FROM sequences.sequence_versions v CROSS JOIN LATERAL jsonb_array_elements(v.steps) WITH ORDINALITY AS s(step, ordinal);

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['sequences', 'sequence_versions', 'subjects', 'subject_people', 'enrolments', 'messages',
        'applications', 'booking_settings'] LOOP
        place := 'sequences.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON ' || place || ' TO {app_role}, {api_role}';
        EXECUTE 'GRANT SELECT ON ' || place || ' TO {read_role}';
    END LOOP;
END $$;
GRANT SELECT ON sequences.standings, sequences.message_queue, sequences.guest_bookings, sequences.booking_contacts,
    sequences.sequence_steps TO {app_role}, {api_role}, {read_role};
