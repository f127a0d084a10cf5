-- A node ends its life itself: nothing it held was abandoned. What it could not end, and may still be running, keeps its
-- permits for a while.
WITH released AS (
    UPDATE timebell.slots SET owner = NULL WHERE owner = :incarnation::bigint
), kept AS (
    UPDATE timebell.permits p
    SET held = u.in_use, wanted = 0,
        free_at = coalesce(:lease_now::timestamptz, now()) + :grace_seconds::double precision * interval '1 second'
    FROM unnest(:queues::text[], :in_use::integer[]) AS u(queue, in_use)
    WHERE p.queue = u.queue AND p.incarnation = :incarnation::bigint
), freed AS (
    DELETE FROM timebell.permits WHERE incarnation = :incarnation::bigint AND queue <> ALL(:queues::text[])
)
DELETE FROM timebell.nodes WHERE incarnation = :incarnation::bigint
