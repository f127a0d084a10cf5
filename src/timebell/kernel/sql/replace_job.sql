-- Gives an unstarted job new content and time under its key; how far it came with the old content means nothing now,
-- nor that somebody asked to cancel it.
-- No row comes back when it started meanwhile.
WITH replaced AS (
    UPDATE timebell.jobs j SET queue = :queue::text, subject = :subject::text, payload = :payload::text::jsonb,
        due_at = coalesce(:due_at::timestamptz, t.now + coalesce(:delay::double precision, 0) * interval '1 second'),
        run_at = greatest(:due_at::timestamptz, t.now + coalesce(:delay::double precision, 0) * interval '1 second'),
        expires_at = :expires_at::timestamptz, priority = :priority::smallint, urgency = :urgency::text,
        lane = CASE :urgency::text WHEN 'critical' THEN 0 ELSE 1 END, max_attempts = :max_attempts::integer,
        guard = :guard::text, correlation_id = :correlation_id::text, attempt = 0, cursor = NULL,
        cancel_requested_at = NULL, version = j.version + 1
    FROM (SELECT coalesce(:now::timestamptz, now()) AS now) t
    WHERE j.id = :id::uuid AND j.tenant = :tenant::text AND j.started_by IS NULL
    RETURNING j.id, j.slot, j.run_at, j.due_at, j.kind, j.key, j.queue, j.subject, j.payload
), forgotten AS (
    DELETE FROM timebell.cancel_requests c USING replaced r WHERE c.job_id = r.id
), renamed AS (
    UPDATE timebell.job_keys k
    SET fingerprint = timebell.job_fingerprint(r.queue, r.subject, r.payload, :due_at::timestamptz),
        lifetime_seconds = :lifetime::double precision
    FROM replaced r WHERE k.tenant = :tenant::text AND k.kind = r.kind AND k.key = r.key AND k.job_id = r.id
)
SELECT id, slot, run_at, due_at, run_at <= coalesce(:now::timestamptz, now()) + interval '2 seconds' AS is_near
FROM replaced
