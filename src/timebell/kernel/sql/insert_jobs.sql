-- Jobs of one tenant, as many as the arrays are long. A job that names no due instant is due now; one that was
-- due before it was written is tried from now on, so that the sweep behind the cursor finds it.
INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, key, lane, run_at, due_at, expires_at, priority, urgency,
    max_attempts, step, revision, step_order, guard, payload, correlation_id)
SELECT j.id, :tenant::text, j.queue, j.kind, j.subject, j.key, CASE j.urgency WHEN 'critical' THEN 0 ELSE 1 END,
    greatest(j.due_at, t.now + coalesce(j.delay, 0) * interval '1 second'),
    coalesce(j.due_at, t.now + coalesce(j.delay, 0) * interval '1 second'), j.expires_at,
    j.priority, j.urgency, j.max_attempts, j.step, :revision::integer, j.step_order, j.guard, j.payload::jsonb,
    j.correlation_id
FROM (SELECT coalesce(:now::timestamptz, now()) AS now) t, unnest(
    :ids::uuid[], :queues::text[], :kinds::text[], :subjects::text[], :keys::text[], :due_ats::timestamptz[],
    :delays::double precision[], :expires_ats::timestamptz[], :priorities::smallint[], :urgencies::text[],
    :max_attempts::integer[], :steps::text[], :step_orders::integer[], :guards::text[], :payloads::text[],
    :correlation_ids::text[]
) AS j(id, queue, kind, subject, key, due_at, delay, expires_at, priority, urgency, max_attempts, step, step_order,
    guard, payload, correlation_id)
RETURNING id, slot, run_at, due_at,
    run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds' AS is_near
