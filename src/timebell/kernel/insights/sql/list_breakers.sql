-- The circuit breakers that are not closed. One whose time is over lets a probe through.
SELECT b.destination, CASE WHEN b.open_until > coalesce(:now::timestamptz, now()) THEN 'open' ELSE 'half_open' END
    AS state, b.failure_count, b.open_seconds, b.open_until, b.updated_at, b.probed_by AS incarnation, n.node
FROM timebell.breakers b LEFT JOIN timebell.nodes n ON n.incarnation = b.probed_by
ORDER BY b.destination LIMIT :rows_max::integer
