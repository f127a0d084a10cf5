-- phase: expand
-- What other services asked to be told, once or again. When that is, and whether it was done, is the business of jobs and
-- schedules, which are the kernel's: a row here says what was asked for, and is written when that changes.

-- id is the caller's name for it; number is the order of its coming, by which lists go on. A row has an instant (due_at)
-- or a recurrence. One that has neither was cancelled before it was asked for: it keeps its name from being used for a
-- day. start_at is in force also where nobody gave it. Of what recurs, fired_count and fired_for say how often it was
-- published, and for which instant last; what is due once is known by its job. payload is JSON as it came: it goes out
-- as the same text.
CREATE TABLE scheduler.requests (
    tenant         text NOT NULL,
    id             text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 200),
    number         uuid NOT NULL,
    due_at         timestamptz,
    recurrence     text,
    timezone       text,
    start_at       timestamptz,
    is_start_given boolean NOT NULL DEFAULT false,
    misfire        text CHECK (misfire IN ('fire_once', 'fire_all', 'skip')),
    payload        json,
    correlation_id text,
    job_id         uuid,
    schedule_id    uuid,
    fired_count    integer NOT NULL DEFAULT 0,
    fired_for      timestamptz,
    cancelled_at   timestamptz,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK ((due_at IS NULL) <> (recurrence IS NULL) OR due_at IS NULL AND cancelled_at IS NOT NULL)
) WITH (fillfactor = 90);
CREATE INDEX requests_number ON scheduler.requests (tenant, number);
CREATE INDEX requests_tombstones ON scheduler.requests (cancelled_at) WHERE due_at IS NULL AND recurrence IS NULL;

ALTER TABLE scheduler.requests ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON scheduler.requests TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON scheduler.requests FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON scheduler.requests TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

-- How each request stands. One that nobody cancelled is pending as long as something of it is owed, be it that it died and
-- waits for an operator; what became of a job is in the log, and what is forgotten there was done. What recurs is owed until
-- its last occurrence is: that one is planned once a row has its wall time, or everything beyond it is. Of the occurrences
-- before it so many can still be owed as may wait for each other. What somebody ended by another door was cancelled.
-- Everything is looked up row by row, each by its index and once: LIMIT 1 and OFFSET 0 say so. Behind the wall between
-- tenants an index is not used for what is compared with an expression, so that subjects are made in a query of their own.
CREATE VIEW scheduler.standings WITH (security_invoker = true) AS
SELECT r.tenant, r.id, r.number, r.due_at, r.recurrence, r.timezone, r.start_at, r.misfire, r.payload, r.correlation_id,
    r.job_id, r.schedule_id, stands.status,
    CASE WHEN stands.status <> 'pending' THEN NULL WHEN r.recurrence IS NULL THEN r.due_at ELSE (
        SELECT owed.due_at
        FROM (
            SELECT o.occurs_at, o.id, 'occurrence:' || o.id AS subject FROM timebell.occurrences o
            WHERE o.tenant = r.tenant AND o.schedule_id = r.schedule_id AND o.occurs_at > coalesce(r.fired_for, '-infinity')
            ORDER BY o.occurs_at, o.id LIMIT 10000
        ) o
        CROSS JOIN LATERAL (
            SELECT j.due_at FROM timebell.jobs j WHERE j.tenant = r.tenant AND j.subject = o.subject LIMIT 1
        ) owed
        ORDER BY o.occurs_at, o.id LIMIT 1
    ) END AS upcoming_at,
    CASE WHEN r.recurrence IS NULL THEN (stands.status = 'done')::integer ELSE r.fired_count END AS fired_count,
    r.fired_for, r.cancelled_at, r.created_at, r.updated_at
FROM scheduler.requests r
LEFT JOIN LATERAL (
    SELECT s.state, s.state_reason, s.last_local, s.planned_until FROM timebell.schedules s
    WHERE s.tenant = r.tenant AND s.id = r.schedule_id LIMIT 1
) s ON r.schedule_id IS NOT NULL
CROSS JOIN LATERAL (SELECT CASE
    WHEN r.cancelled_at IS NOT NULL THEN 'cancelled'
    WHEN r.recurrence IS NULL THEN coalesce(
        (SELECT 'pending' FROM timebell.jobs j WHERE j.tenant = r.tenant AND j.id = r.job_id LIMIT 1),
        (SELECT 'pending' FROM timebell.dead_jobs d WHERE d.tenant = r.tenant AND d.id = r.job_id LIMIT 1),
        (SELECT CASE l.state WHEN 'done' THEN 'done' ELSE 'cancelled' END FROM timebell.job_log l
            WHERE l.tenant = r.tenant AND l.id = r.job_id AND l.state <> 'pending'
            ORDER BY l.logged_at DESC, l.version DESC LIMIT 1),
        'done')
    WHEN s.state <> 'ended' AND (s.last_local IS NULL
        OR s.planned_until AT TIME ZONE 'UTC' <= s.last_local + interval '2 days' AND (
            SELECT true FROM timebell.occurrences o
            WHERE o.tenant = r.tenant AND o.schedule_id = r.schedule_id AND o.original_local >= s.last_local LIMIT 1
        ) IS NULL) THEN 'pending'
    ELSE coalesce(
        (SELECT 'pending'
            FROM (
                SELECT 'occurrence:' || o.id AS subject FROM timebell.occurrences o
                WHERE o.tenant = r.tenant AND o.schedule_id = r.schedule_id ORDER BY o.occurs_at DESC, o.id DESC LIMIT 1000
            ) o
            CROSS JOIN LATERAL (
                SELECT FROM timebell.jobs j WHERE j.tenant = r.tenant AND j.subject = o.subject
                UNION ALL
                SELECT FROM timebell.agenda_done a
                JOIN timebell.dead_jobs d ON d.tenant = a.tenant AND d.id = a.job_id
                WHERE a.tenant = r.tenant AND a.subject = o.subject AND a.state = 'dead'
                LIMIT 1
            ) owed
            LIMIT 1),
        CASE WHEN s.state = 'ended' AND s.state_reason <> 'over' THEN 'cancelled' ELSE 'done' END)
    END AS status OFFSET 0
) stands
WHERE r.due_at IS NOT NULL OR r.recurrence IS NOT NULL;

-- The same with the names of the source.
CREATE VIEW scheduler.scheduler_jobs WITH (security_invoker = true) AS
SELECT id, tenant AS tenant_id, due_at AS at, recurrence AS rrule, start_at AS dtstart, timezone AS tz, payload,
    upcoming_at AS next_run_at, fired_count AS fire_count, misfire, status
FROM scheduler.standings;

GRANT SELECT, INSERT, UPDATE, DELETE ON scheduler.requests TO {app_role}, {api_role};
GRANT SELECT ON scheduler.requests TO {read_role};
GRANT SELECT ON scheduler.standings, scheduler.scheduler_jobs TO {app_role}, {api_role}, {read_role};
