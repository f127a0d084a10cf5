-- Locks one job for a handler that does its work in the same transaction, under the same conditions as a start. One
-- whose start was marked has met the epoch then, and its slot may have moved since. A row that another transaction
-- holds is left alone. The second lock is for whoever cancels: the row shows them nothing while it is held, and by this
-- one they know that it runs.
WITH locked AS (
    SELECT j.id, j.payload, j.cursor, j.cancel_requested_at
    FROM timebell.jobs j
    WHERE j.id = :id::uuid AND j.version = :version::integer
        AND (j.started_by = :incarnation::bigint OR j.started_by IS NULL AND j.cancel_requested_at IS NULL
            AND j.id NOT IN (SELECT r.job_id FROM timebell.cancel_requests r))
        AND j.run_at <= coalesce(:now::timestamptz, now())
        AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now::timestamptz, now()))
        AND (j.started_by IS NOT NULL OR EXISTS (SELECT FROM timebell.slots o
            WHERE o.slot = j.slot AND o.epoch = :epoch::bigint AND o.owner = :incarnation::bigint))
        AND (j.step IS NULL OR j.revision = (
            SELECT a.revision FROM timebell.agendas a WHERE a.tenant = j.tenant AND a.subject = j.subject))
        AND (j.step_order IS NULL OR NOT EXISTS (
            SELECT FROM timebell.jobs earlier WHERE earlier.tenant = j.tenant AND earlier.subject = j.subject
                AND earlier.step_order < j.step_order))
    FOR UPDATE SKIP LOCKED
)
SELECT l.id, l.payload::text, l.cursor::text,
    l.cancel_requested_at IS NOT NULL OR l.id IN (SELECT r.job_id FROM timebell.cancel_requests r) AS is_cancel_requested,
    pg_advisory_xact_lock_shared(hashtextextended('timebell.attempt ' || l.id, 0)) IS NULL AS is_unseen
FROM locked l
