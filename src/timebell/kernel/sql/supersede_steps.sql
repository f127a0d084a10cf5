-- Steps that run while they stop being owed: what they do now cannot be taken back, but they are not tried again.
-- One that runs in this very transaction carries no mark of its start.
UPDATE timebell.jobs
SET cancel_requested_at = coalesce(cancel_requested_at, :now::timestamptz, now())
WHERE id = ANY(:ids::uuid[])
RETURNING id
