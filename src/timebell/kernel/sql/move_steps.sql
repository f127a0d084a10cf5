-- Unstarted steps with a new time or new content keep their row and get a new version, so that whoever has read
-- the old one can no longer act on it.
WITH moved AS (
    UPDATE timebell.jobs j
    SET due_at = m.due_at, run_at = greatest(m.due_at, coalesce(:now::timestamptz, now())), expires_at = m.expires_at,
        queue = m.queue, kind = m.kind, guard = m.guard, priority = m.priority, urgency = m.urgency,
        lane = CASE m.urgency WHEN 'critical' THEN 0 ELSE 1 END, max_attempts = m.max_attempts,
        step_order = m.step_order, payload = m.payload::jsonb, revision = :revision::integer,
        version = j.version + 1, attempt = 0, cursor = NULL
    FROM unnest(:ids::uuid[], :due_ats::timestamptz[], :expires_ats::timestamptz[], :queues::text[], :kinds::text[],
        :guards::text[], :priorities::smallint[], :urgencies::text[], :max_attempts::integer[],
        :step_orders::integer[], :payloads::text[])
        AS m(id, due_at, expires_at, queue, kind, guard, priority, urgency, max_attempts, step_order, payload)
    WHERE j.id = m.id AND j.started_by IS NULL
    RETURNING j.*
), logged AS (
    INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, state, reason, due_at,
        finished_at, correlation_id)
    SELECT id, tenant, queue, kind, subject, key, step, version, attempt, 'pending', 'moved', due_at,
        coalesce(:now::timestamptz, now()), correlation_id
    FROM moved
)
SELECT id, slot, run_at, due_at, run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds' AS is_near
FROM moved
