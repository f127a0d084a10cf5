-- Jobs that wait for a later try are tried now, never before they are due. The new version keeps whoever has read the
-- old one from acting on it.
UPDATE timebell.jobs j
SET run_at = greatest(j.due_at, t.now), version = j.version + 1
FROM (SELECT coalesce(:now::timestamptz, now()) AS now) t
WHERE j.tenant = :tenant::text AND j.id = ANY (:ids::uuid[]) AND j.started_by IS NULL
    AND j.run_at > greatest(j.due_at, t.now)
RETURNING j.id, j.slot, j.run_at, j.run_at <= t.now + interval '2 seconds' AS is_near
