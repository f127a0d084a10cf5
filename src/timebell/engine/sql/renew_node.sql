-- Prolongs a life that has not run out. No row comes back when it has, or when somebody buried the node.
UPDATE timebell.nodes
SET lease_until = coalesce(:lease_now::timestamptz, now()) + :lease_seconds::double precision * interval '1 second'
WHERE incarnation = :incarnation::bigint AND lease_until > coalesce(:lease_now::timestamptz, now())
RETURNING incarnation
