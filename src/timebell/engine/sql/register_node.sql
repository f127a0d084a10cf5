-- A node begins a life: a new incarnation with a lease, and the kinds that it can run. The lives that its process had
-- before did not end in a crash.
INSERT INTO timebell.nodes (incarnation, node, version, started_at, lease_until, survived, kinds)
SELECT nextval('timebell.incarnations'), :node::text, :version::text, t.now,
    t.now + :lease_seconds::double precision * interval '1 second', :survived::bigint[], :kinds::text[]
FROM (SELECT coalesce(:lease_now::timestamptz, now()) AS now) t
RETURNING incarnation
