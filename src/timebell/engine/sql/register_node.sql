-- A node begins a life: a new incarnation with a lease.
INSERT INTO timebell.nodes (incarnation, node, version, started_at, lease_until)
SELECT nextval('timebell.incarnations'), :node::text, :version::text, t.now,
    t.now + :lease_seconds::double precision * interval '1 second'
FROM (SELECT coalesce(:lease_now::timestamptz, now()) AS now) t
RETURNING incarnation
