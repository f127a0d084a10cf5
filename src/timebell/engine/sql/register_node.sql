-- A node begins a life: a new incarnation with a lease, and the kinds that it can run. The lives that its process had
-- before did not end in a crash, and of their permits it takes with it what it still runs under them.
WITH born AS (
    INSERT INTO timebell.nodes (incarnation, node, version, started_at, lease_until, survived, kinds)
    SELECT nextval('timebell.incarnations'), :node::text, :version::text, t.now,
        t.now + :lease_seconds::double precision * interval '1 second', :survived::bigint[], :kinds::text[]
    FROM (SELECT coalesce(:lease_now::timestamptz, now()) AS now) t
    RETURNING incarnation
), freed AS (
    DELETE FROM timebell.permits WHERE incarnation = ANY(:survived::bigint[])
), taken AS (
    INSERT INTO timebell.permits (queue, incarnation, held, wanted)
    SELECT u.queue, b.incarnation, u.in_use, u.in_use
    FROM born b, unnest(:queues::text[], :in_use::integer[]) AS u(queue, in_use)
)
SELECT incarnation FROM born
