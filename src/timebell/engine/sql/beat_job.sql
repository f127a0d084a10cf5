-- A long handler is alive: its cursor is kept, and it hears whether it was cancelled. No row means it lost the job.
UPDATE timebell.jobs j SET cursor = coalesce(:cursor::text::jsonb, j.cursor)
WHERE j.id = :id::uuid AND j.version = :version::integer
    AND (j.started_by = :incarnation::bigint OR j.started_by IS NULL AND EXISTS (
        SELECT FROM timebell.slots o WHERE o.slot = j.slot AND o.owner = :incarnation::bigint))
RETURNING j.cancel_requested_at IS NOT NULL
    OR j.id IN (SELECT r.job_id FROM timebell.cancel_requests r) AS is_cancel_requested
