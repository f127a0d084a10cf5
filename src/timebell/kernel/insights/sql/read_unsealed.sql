-- How far the seals are behind: the age of the first event without one, in the order of writing, after the one that was
-- sealed last. Looks at a bounded number of events.
WITH last AS (
    SELECT e.written_in, e.id
    FROM (SELECT event_id FROM timebell.event_seals ORDER BY sealed_at DESC LIMIT 1) s
    JOIN timebell.events e ON e.id = s.event_id
)
SELECT greatest(0, extract(epoch FROM coalesce(:lease_now::timestamptz, now()) - w.recorded_at))::double precision
    AS unsealed_seconds
FROM (
    SELECT id, recorded_at, written_in FROM timebell.events
    WHERE (written_in, id) > (
        coalesce((SELECT written_in FROM last), '0'::xid8),
        coalesce((SELECT id FROM last), '00000000-0000-0000-0000-000000000000'::uuid))
    ORDER BY written_in, id LIMIT 2000
) w
WHERE NOT EXISTS (SELECT FROM timebell.event_seals s WHERE s.event_id = w.id)
ORDER BY w.written_in, w.id LIMIT 1
