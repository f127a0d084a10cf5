-- phase: expand
-- A cancel that cannot have the row of its job in time is written down beside it. Whatever begins the job, or tries it
-- again, looks here first, and a node carries it out as soon as the row is free. So what was asked is kept also where
-- nothing can be answered yet.

-- Seldom more than a few rows, and almost always none. Two callers may ask for the same job and wait for nobody.
CREATE TABLE timebell.cancel_requests (
    job_id       uuid NOT NULL,
    asked_in     xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant       text NOT NULL,
    reason       text,
    actor        text,
    requested_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, asked_in)
);
ALTER TABLE timebell.cancel_requests ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON timebell.cancel_requests TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON timebell.cancel_requests FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON timebell.cancel_requests TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));
GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.cancel_requests TO {app_role};
GRANT SELECT, INSERT, DELETE ON timebell.cancel_requests TO {api_role};
GRANT SELECT ON timebell.cancel_requests TO {read_role};

-- Of jobs that the caller has locked: what nothing has started is gone, the rest bears a flag that ends it after its
-- present attempt. Answers with the ids of what is gone.
CREATE FUNCTION timebell.cancel_locked(p_locked uuid[], p_reason text, p_actor text, p_now timestamptz) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM timebell.jobs j WHERE j.id = ANY(p_locked) AND j.started_by IS NULL RETURNING j.*
    ), released AS (
        DELETE FROM timebell.job_keys k USING gone g
        WHERE k.tenant = g.tenant AND k.kind = g.kind AND k.key = g.key AND k.job_id = g.id
    ), remembered AS (
        INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
        SELECT g.tenant, g.subject, g.step, g.due_at, 'cancelled', g.id, p_now FROM gone g WHERE g.step IS NOT NULL
        ON CONFLICT DO NOTHING
    ), logged AS (
        INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason,
            due_at, finished_at, actor, correlation_id, payload)
        SELECT g.id, g.tenant, g.queue, g.kind, g.subject, g.key, g.step, g.version, g.attempt, 'cancelled', p_reason,
            g.due_at, p_now, p_actor, g.correlation_id, g.payload FROM gone g
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO deleted FROM gone g;
    UPDATE timebell.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, p_now)
    WHERE j.id = ANY(p_locked) AND j.started_by IS NOT NULL;
    RETURN deleted;
END $$;

-- Exactly one of p_id, (p_kind and p_key), p_subject names what is cancelled; with a p_kind, jobs of other kinds are not
-- meant. A job that nothing has started is deleted: 'cancelled'. One that runs is not tried again: 'too_late'. One whose
-- row another transaction held for longer than p_wait_ms, and of which nobody says that it runs: 'undecided'; what was
-- asked is kept. One that ended answers 'already_final' with its state. p_running is the job in whose own transaction
-- the call is made.
CREATE FUNCTION timebell.cancel_or_request(
    p_tenant text, p_id uuid, p_kind text, p_key text, p_subject text,
    p_reason text, p_actor text, p_running uuid, p_wait_ms integer, p_now timestamptz
) RETURNS TABLE (job_id uuid, answer text, state text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at_now       timestamptz := coalesce(p_now, now());
    targets      uuid[];
    locked       uuid[];
    deleted      uuid[];
    held         uuid[];
    run          uuid[];
    lock_timeout text := current_setting('lock_timeout');
BEGIN
    IF num_nonnulls(p_id, p_key, p_subject) <> 1 OR p_key IS NOT NULL AND p_kind IS NULL THEN
        RAISE EXCEPTION 'name what to cancel by id, by kind and key, or by subject'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    targets := CASE
        WHEN p_id IS NOT NULL THEN ARRAY[p_id]
        WHEN p_key IS NOT NULL THEN ARRAY(SELECT k.job_id FROM timebell.job_keys k
            WHERE k.tenant = p_tenant AND k.kind = p_kind AND k.key = p_key)
        ELSE ARRAY(SELECT j.id FROM timebell.jobs j WHERE j.tenant = p_tenant AND j.subject = p_subject
            AND (p_kind IS NULL OR j.kind = p_kind) ORDER BY j.id)
    END;
    BEGIN
        -- No wait at all cannot be said: 0 would mean no limit.
        PERFORM set_config('lock_timeout', greatest(p_wait_ms, 1) || 'ms', true);
        -- Whoever changes an agenda locks its row first; taking the jobs first could deadlock with that.
        PERFORM FROM timebell.agendas a WHERE a.tenant = p_tenant AND a.subject = ANY(ARRAY(
            SELECT j.subject FROM timebell.jobs j
            WHERE j.id = ANY(targets) AND j.tenant = p_tenant AND j.step IS NOT NULL
            UNION SELECT p_subject))
        ORDER BY a.subject FOR UPDATE;
        -- Whoever held the agenda may have changed what is owed about the subject.
        IF p_subject IS NOT NULL THEN
            targets := ARRAY(SELECT j.id FROM timebell.jobs j WHERE j.tenant = p_tenant AND j.subject = p_subject
                AND (p_kind IS NULL OR j.kind = p_kind) ORDER BY j.id);
        END IF;
        locked := ARRAY(SELECT j.id FROM timebell.jobs j WHERE j.id = ANY(targets) AND j.tenant = p_tenant
            AND (p_kind IS NULL OR j.kind = p_kind) AND j.id IS DISTINCT FROM p_running ORDER BY j.id FOR UPDATE);
        PERFORM set_config('lock_timeout', lock_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        locked := ARRAY(SELECT j.id FROM timebell.jobs j WHERE j.id = ANY(targets) AND j.tenant = p_tenant
            AND (p_kind IS NULL OR j.kind = p_kind) AND j.id IS DISTINCT FROM p_running ORDER BY j.id FOR UPDATE SKIP LOCKED);
    END;
    deleted := timebell.cancel_locked(locked, p_reason, p_actor, at_now);
    -- What runs in this very transaction carries no mark of its start; it too is not tried again.
    UPDATE timebell.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, at_now)
    WHERE j.id = p_running AND j.id = ANY(targets) AND j.tenant = p_tenant AND (p_kind IS NULL OR j.kind = p_kind);
    held := ARRAY(SELECT j.id FROM timebell.jobs j WHERE j.id = ANY(targets) AND j.id <> ALL(locked)
        AND j.tenant = p_tenant AND (p_kind IS NULL OR j.kind = p_kind) AND j.id IS DISTINCT FROM p_running);
    IF cardinality(held) > 0 THEN
        INSERT INTO timebell.cancel_requests (job_id, tenant, reason, actor, requested_at)
        SELECT h.id, p_tenant, p_reason, p_actor, at_now FROM unnest(held) AS h(id)
        WHERE NOT EXISTS (SELECT FROM timebell.cancel_requests r WHERE r.job_id = h.id)
        ON CONFLICT DO NOTHING;
        -- An attempt that holds the row for its own transaction says so by a lock of this name.
        run := ARRAY(SELECT h.id FROM unnest(held) AS h(id)
            JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
                AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('timebell.attempt ' || h.id, 0)
            JOIN pg_database d ON d.oid = l.database AND d.datname = current_database());
    END IF;
    RETURN QUERY
        SELECT t.id,
            CASE WHEN t.id = ANY(deleted) THEN 'cancelled' WHEN j.id IS NULL THEN 'already_final'
                WHEN u.is_undecided THEN 'undecided' ELSE 'too_late' END,
            CASE WHEN t.id = ANY(deleted) THEN 'cancelled' WHEN j.id IS NULL THEN l.state
                WHEN u.is_undecided THEN NULL ELSE 'running' END
        FROM unnest(targets) WITH ORDINALITY AS t(id, position)
        LEFT JOIN timebell.jobs j ON j.id = t.id AND j.tenant = p_tenant AND (p_kind IS NULL OR j.kind = p_kind)
        CROSS JOIN LATERAL (
            SELECT t.id = ANY(held) AND j.started_by IS NULL AND t.id <> ALL(run) AS is_undecided) u
        LEFT JOIN LATERAL (
            SELECT 'dead' AS state FROM timebell.dead_jobs d
            WHERE d.id = t.id AND d.tenant = p_tenant AND (p_kind IS NULL OR d.kind = p_kind)
            UNION ALL (
                SELECT l.state FROM timebell.job_log l
                WHERE l.id = t.id AND l.tenant = p_tenant AND l.state <> 'pending'
                    AND (p_kind IS NULL OR l.kind = p_kind)
                ORDER BY l.logged_at DESC, l.version DESC LIMIT 1)
            LIMIT 1
        ) l ON j.id IS NULL
        WHERE t.id = ANY(deleted) OR j.id IS NOT NULL OR l.state IS NOT NULL
        ORDER BY t.position;
END $$;

-- Carries out what was asked of jobs whose rows are free by now; answers with the jobs that will not start. What is
-- still held waits for the next call, and what was asked of a job that ended is forgotten.
CREATE FUNCTION timebell.carry_out_cancels(p_limit integer, p_now timestamptz)
RETURNS TABLE (job_id uuid, tenant text, queue text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    asked  record;
    job    record;
    at_now timestamptz := coalesce(p_now, now());
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    FOR asked IN SELECT r.* FROM timebell.cancel_requests r ORDER BY r.requested_at, r.job_id
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        BEGIN
            SELECT j.tenant, j.queue INTO job FROM timebell.jobs j WHERE j.id = asked.job_id FOR UPDATE NOWAIT;
            IF cardinality(timebell.cancel_locked(ARRAY[asked.job_id], asked.reason, asked.actor, at_now)) > 0 THEN
                job_id := asked.job_id;
                tenant := job.tenant;
                queue := job.queue;
                RETURN NEXT;
            END IF;
            DELETE FROM timebell.cancel_requests r WHERE r.job_id = asked.job_id AND r.asked_in = asked.asked_in;
        EXCEPTION WHEN lock_not_available THEN
            -- Somebody holds the job, or what belongs to it.
        END;
    END LOOP;
END $$;

-- Processes of the release before this one do not know the word; what they are told is kept all the same.
CREATE OR REPLACE FUNCTION timebell.cancel_jobs(
    p_tenant text, p_id uuid, p_kind text, p_key text, p_subject text,
    p_reason text, p_actor text, p_running uuid, p_wait_ms integer, p_now timestamptz
) RETURNS TABLE (job_id uuid, answer text, state text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.job_id, CASE c.answer WHEN 'undecided' THEN 'too_late' ELSE c.answer END,
        CASE c.answer WHEN 'undecided' THEN 'running' ELSE c.state END
    FROM timebell.cancel_or_request(p_tenant, p_id, p_kind, p_key, p_subject, p_reason, p_actor, p_running, p_wait_ms,
        p_now) c
$$;

-- For other languages: cancels by whichever of the three is given and answers a row for each job it found.
CREATE OR REPLACE FUNCTION timebell.cancel(
    id uuid DEFAULT NULL, kind text DEFAULT NULL, key text DEFAULT NULL, subject text DEFAULT NULL,
    tenant text DEFAULT 'default', reason text DEFAULT NULL
) RETURNS TABLE (job_id uuid, answer text, state text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM timebell.cancel_or_request(tenant, id, kind, key, subject, reason, NULL, NULL, 2000, NULL)
$$;

GRANT EXECUTE ON FUNCTION timebell.cancel_locked(uuid[], text, text, timestamptz),
    timebell.cancel_or_request(text, uuid, text, text, text, text, text, uuid, integer, timestamptz)
    TO {app_role}, {api_role};
REVOKE ALL ON FUNCTION timebell.carry_out_cancels(integer, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION timebell.carry_out_cancels(integer, timestamptz) TO {app_role};
