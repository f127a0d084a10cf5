-- Steps that stay as they are are confirmed under the new revision; the row and its version stay. A started one
-- that an earlier revision gave up is wanted again; one that was owed until now and cancelled stays cancelled.
UPDATE timebell.jobs
SET revision = :revision::integer,
    cancel_requested_at = CASE WHEN revision = :revision::integer - 1 THEN cancel_requested_at END
WHERE id = ANY(:ids::uuid[])
