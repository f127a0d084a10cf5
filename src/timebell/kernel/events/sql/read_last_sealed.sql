-- Where the event that was sealed last stands in the order of writing.
SELECT e.written_in::text AS number, e.id
FROM (SELECT event_id FROM timebell.event_seals ORDER BY sealed_at DESC LIMIT 1) s
JOIN timebell.events e ON e.id = s.event_id
