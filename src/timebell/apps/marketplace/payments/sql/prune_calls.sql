-- What the simulator was asked for is shown for a while.
DELETE FROM marketplace.simulator_calls c
WHERE (c.tenant, c.id) IN (
    SELECT o.tenant, o.id FROM marketplace.simulator_calls o
    WHERE o.at < coalesce(:now::timestamptz, now()) - make_interval(days => :days::integer)
    ORDER BY o.at LIMIT :limit::integer)
RETURNING c.id
