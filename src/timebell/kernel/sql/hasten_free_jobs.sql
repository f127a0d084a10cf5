-- As hasten_jobs, for jobs of any tenant, and without waiting for whoever holds one of them.
WITH free AS (
    SELECT j.id FROM timebell.jobs j
    WHERE j.id = ANY (:ids::uuid[]) AND j.started_by IS NULL
        AND j.run_at > greatest(j.due_at, coalesce(:now::timestamptz, now()))
    FOR UPDATE SKIP LOCKED
)
UPDATE timebell.jobs j
SET run_at = greatest(j.due_at, coalesce(:now::timestamptz, now())), version = j.version + 1
FROM free WHERE j.id = free.id
RETURNING j.id, j.slot, j.run_at, true AS is_near
