-- Jobs of one tenant, as many as there are ids. Where all rows have the same queue, kind, delay, priority or urgency
-- its array holds it once, and a column of NULLs is an empty array; unnest fills up with NULLs. A job that names no
-- due instant is due now; one that was due before it was written is tried from now on, so that the sweep behind the
-- cursor finds it. The answer is for the wake-ups: the slots in which something is due soon.
WITH inserted AS (
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, key, lane, run_at, due_at, expires_at, priority,
        urgency, max_attempts, step, revision, step_order, guard, payload, correlation_id)
    SELECT j.id, :tenant::text, coalesce(j.queue, (:queues::text[])[1]), coalesce(j.kind, (:kinds::text[])[1]),
        j.subject, j.key, CASE coalesce(j.urgency, (:urgencies::text[])[1]) WHEN 'critical' THEN 0 ELSE 1 END,
        greatest(j.due_at, d.delayed_to), coalesce(j.due_at, d.delayed_to), j.expires_at,
        coalesce(j.priority, (:priorities::smallint[])[1]), coalesce(j.urgency, (:urgencies::text[])[1]),
        j.max_attempts, j.step, :revision::integer, j.step_order, j.guard, j.payload::jsonb, j.correlation_id
    FROM unnest(
        :ids::uuid[], :queues::text[], :kinds::text[], :subjects::text[], :keys::text[], :due_ats::timestamptz[],
        :delays::double precision[], :expires_ats::timestamptz[], :priorities::smallint[], :urgencies::text[],
        :max_attempts::integer[], :steps::text[], :step_orders::integer[], :guards::text[], :payloads::text[],
        :correlation_ids::text[]
    ) AS j(id, queue, kind, subject, key, due_at, delay, expires_at, priority, urgency, max_attempts, step,
        step_order, guard, payload, correlation_id)
    CROSS JOIN LATERAL (
        SELECT coalesce(:now::timestamptz, now())
            + coalesce(j.delay, (:delays::double precision[])[1]) * interval '1 second' AS delayed_to
    ) AS d
    RETURNING slot, run_at
)
SELECT slot, min(run_at) AS run_at, true AS is_near FROM inserted
WHERE run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds'
GROUP BY slot ORDER BY slot
