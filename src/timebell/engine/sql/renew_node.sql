-- Prolongs a life that has not run out, and keeps what the node says of itself. No row comes back when it has, or when
-- somebody buried the node.
UPDATE timebell.nodes
SET lease_until = coalesce(:lease_now::timestamptz, now()) + :lease_seconds::double precision * interval '1 second',
    passed_at = coalesce(:lease_now::timestamptz, now()) - :passed_seconds::double precision * interval '1 second',
    planned_at = coalesce(:lease_now::timestamptz, now()) - :planned_seconds::double precision * interval '1 second',
    held = :held::text[],
    clock_off_seconds = extract(epoch FROM :own_now::timestamptz - coalesce(:lease_now::timestamptz, now()))
WHERE incarnation = :incarnation::bigint AND lease_until > coalesce(:lease_now::timestamptz, now())
RETURNING incarnation
