-- phase: expand
-- Cancelling, with a truthful answer for each job. Python's verb and the SQL function are this one function.

-- Exactly one of p_id, (p_kind and p_key), p_subject names what is cancelled; with a p_kind, jobs of other kinds are not
-- meant. A job that nothing has started is
-- deleted: 'cancelled'. One that runs gets a flag, which its handler can see and which stops any further try:
-- 'too_late'. One that ended answers 'already_final' with its state. p_running is the job in whose own
-- transaction the call is made.
CREATE FUNCTION timebell.cancel_jobs(
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
    WITH gone AS (
        DELETE FROM timebell.jobs j WHERE j.id = ANY(locked) AND j.started_by IS NULL RETURNING j.*
    ), released AS (
        DELETE FROM timebell.job_keys k USING gone g
        WHERE k.tenant = g.tenant AND k.kind = g.kind AND k.key = g.key AND k.job_id = g.id
    ), remembered AS (
        INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at)
        SELECT g.tenant, g.subject, g.step, g.due_at, 'cancelled', g.id, at_now FROM gone g WHERE g.step IS NOT NULL
        ON CONFLICT DO NOTHING
    ), logged AS (
        INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason,
            due_at, finished_at, actor, correlation_id, payload)
        SELECT g.id, g.tenant, g.queue, g.kind, g.subject, g.key, g.step, g.version, g.attempt, 'cancelled', p_reason,
            g.due_at, at_now, p_actor, g.correlation_id, g.payload FROM gone g
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO deleted FROM gone g;
    UPDATE timebell.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, at_now)
    WHERE j.id = ANY(locked) AND j.started_by IS NOT NULL;
    RETURN QUERY
        SELECT t.id,
            CASE WHEN t.id = ANY(deleted) THEN 'cancelled' WHEN j.id IS NOT NULL THEN 'too_late' ELSE 'already_final' END,
            CASE WHEN t.id = ANY(deleted) THEN 'cancelled' WHEN j.id IS NOT NULL THEN 'running' ELSE l.state END
        FROM unnest(targets) WITH ORDINALITY AS t(id, position)
        LEFT JOIN timebell.jobs j ON j.id = t.id AND j.tenant = p_tenant AND (p_kind IS NULL OR j.kind = p_kind)
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

-- For other languages: cancels by whichever of the three is given and answers a row for each job it found.
CREATE FUNCTION timebell.cancel(
    id uuid DEFAULT NULL, kind text DEFAULT NULL, key text DEFAULT NULL, subject text DEFAULT NULL,
    tenant text DEFAULT 'default', reason text DEFAULT NULL
) RETURNS TABLE (job_id uuid, answer text, state text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM timebell.cancel_jobs(tenant, id, kind, key, subject, reason, NULL, NULL, 2000, NULL)
$$;
GRANT EXECUTE ON FUNCTION timebell.cancel_jobs(text, uuid, text, text, text, text, text, uuid, integer, timestamptz),
    timebell.cancel(uuid, text, text, text, text, text) TO {app_role};
