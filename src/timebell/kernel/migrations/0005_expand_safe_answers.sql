-- phase: expand
-- An answer that only repeats an earlier one waits for the standby as the first one did.

-- Enqueues one job in the caller's transaction and answers with its id. No wake-up is sent from inside a
-- transaction, so the job is found by the next sweep. The same key with the same content answers with the
-- job that is there; with other content it is refused. To answer so is to say that the job is safe, so the empty
-- message makes the caller's commit wait for a synchronous standby as a write does.
CREATE OR REPLACE FUNCTION timebell.enqueue(
    kind text,
    payload jsonb DEFAULT '{}',
    due_at timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default',
    subject text DEFAULT NULL,
    key text DEFAULT NULL,
    queue text DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0,
    urgency text DEFAULT 'normal',
    max_attempts integer DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    p_now timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    at_now   timestamptz := coalesce(p_now, now());
    declared timebell.kinds%ROWTYPE;
    existing timebell.job_keys%ROWTYPE;
    new_id   uuid := timebell.new_id();
    print    text;
BEGIN
    SELECT k.* INTO declared FROM timebell.kinds k WHERE k.kind = enqueue.kind;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'kind: no handler is declared for %', kind USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Start a node whose apps declare this kind once, then enqueue.';
    END IF;
    queue := coalesce(queue, declared.queue);
    IF NOT EXISTS (SELECT FROM timebell.queues q WHERE q.name = enqueue.queue) THEN
        RAISE EXCEPTION 'queue: % was not declared', queue USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Declare it in an app.';
    END IF;
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'payload: must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(payload::text) > declared.payload_bytes_max THEN
        RAISE EXCEPTION 'payload: % bytes, the limit is %', octet_length(payload::text), declared.payload_bytes_max
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Store the data yourself and pass its id.';
    ELSIF due_at NOT BETWEEN '0001-01-01Z' AND '9999-12-31Z'
        OR expires_at NOT BETWEEN '0001-01-01Z' AND '9999-12-31Z' THEN
        RAISE EXCEPTION 'due_at and expires_at: must lie in the years 1 to 9999'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF expires_at <= coalesce(due_at, at_now) THEN
        RAISE EXCEPTION 'expires_at: must be after due_at' USING ERRCODE = 'invalid_parameter_value';
    ELSIF urgency NOT IN ('normal', 'time_bound', 'critical') THEN
        RAISE EXCEPTION 'urgency: must be normal, time_bound or critical' USING ERRCODE = 'invalid_parameter_value';
    ELSIF priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority: must be between -100 and 100' USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'max_attempts: must be between 1 and 100' USING ERRCODE = 'invalid_parameter_value';
    ELSIF tenant IS NULL OR length(tenant) NOT BETWEEN 1 AND 200 OR length(subject) NOT BETWEEN 1 AND 200
        OR length(key) NOT BETWEEN 1 AND 200 OR length(correlation_id) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'tenant, subject, key and correlation_id: must have 1 to 200 characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF key IS NOT NULL THEN
        print := timebell.job_fingerprint(queue, subject, payload, due_at);
        -- A key that is seen to be taken is not asked for, because asking would lock it and hold up the finish of its
        -- job. Whoever loses the race for a free one looks again.
        FOR round IN 1 .. 10 LOOP
            SELECT k.* INTO existing FROM timebell.job_keys k
            WHERE k.tenant = enqueue.tenant AND k.kind = enqueue.kind AND k.key = enqueue.key
                AND (k.expires_at IS NULL OR k.expires_at > at_now);
            IF FOUND AND existing.fingerprint = print THEN
                PERFORM pg_logical_emit_message(true, 'timebell', '');
                RETURN existing.job_id;
            ELSIF FOUND OR round = 10 THEN
                RAISE EXCEPTION 'key: % already stands for another job of kind %', key, kind
                    USING ERRCODE = 'unique_violation', HINT = 'Use another key, or cancel the job it stands for.';
            END IF;
            INSERT INTO timebell.job_keys AS k (tenant, kind, key, job_id, fingerprint)
            VALUES (tenant, kind, key, new_id, print)
            ON CONFLICT ON CONSTRAINT job_keys_pkey DO UPDATE
                SET job_id = excluded.job_id, fingerprint = excluded.fingerprint, expires_at = NULL,
                    lifetime_seconds = NULL
                WHERE k.expires_at <= at_now;
            EXIT WHEN FOUND;
        END LOOP;
    END IF;
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, key, lane, run_at, due_at, expires_at, priority,
        urgency, max_attempts, payload, correlation_id)
    VALUES (new_id, tenant, queue, kind, subject, key, CASE WHEN urgency = 'critical' THEN 0 ELSE 1 END,
        greatest(due_at, at_now), coalesce(due_at, at_now), expires_at, priority, urgency, max_attempts, payload,
        correlation_id);
    RETURN new_id;
END $$;
