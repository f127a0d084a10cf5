-- One probe for all nodes: whoever takes it begins the next hold at once, so that nobody waits for its answer.
UPDATE timebell.breakers
SET probed_by = :incarnation::bigint,
    open_until = coalesce(:now::timestamptz, now()) + open_seconds * interval '1 second'
WHERE destination = :destination::text AND open_until <= coalesce(:now::timestamptz, now())
RETURNING open_until
