-- The first steps of many subjects, of whatever tenants. Few forms of step stand for all of them, each known by its
-- number; one tenant may stand for all, and columns of NULLs are empty. Names are no part of a form, since each step may
-- have its own: to find one of thousands in an array is to walk there. A step that was due before it was written is tried
-- from now on, so that the sweep behind the cursor finds it. The answer is for the wake-ups.
WITH begun AS (
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, lane, run_at, due_at, expires_at, priority, urgency,
        max_attempts, step, revision, step_order, guard, payload, correlation_id)
    SELECT j.id, coalesce(j.tenant, (:tenants::text[])[1]), (:queues::text[])[j.form], (:kinds::text[])[j.form],
        j.subject, CASE (:urgencies::text[])[j.form] WHEN 'critical' THEN 0 ELSE 1 END,
        greatest(j.due_at, coalesce(:now::timestamptz, now())), j.due_at, j.expires_at,
        (:priorities::smallint[])[j.form], (:urgencies::text[])[j.form], (:max_attempts::integer[])[j.form],
        j.step, 1, (:step_orders::integer[])[j.form], (:guards::text[])[j.form], j.payload::jsonb,
        j.correlation_id
    FROM unnest(:ids::uuid[], :tenants::text[], :subjects::text[], :forms::integer[], :due_ats::timestamptz[],
        :expires_ats::timestamptz[], :payloads::text[], :correlation_ids::text[], :steps::text[])
        AS j(id, tenant, subject, form, due_at, expires_at, payload, correlation_id, step)
    RETURNING slot, run_at
)
SELECT slot, min(run_at) AS run_at, true AS is_near FROM begun
WHERE run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds'
GROUP BY slot ORDER BY slot
