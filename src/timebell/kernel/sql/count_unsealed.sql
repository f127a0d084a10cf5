-- How many events have no seal yet, and since when. Looks at all of them; only who verifies the chains asks.
SELECT count(*) AS unsealed_count, min(e.recorded_at) AS unsealed_since
FROM timebell.events e
WHERE (:tenant::text IS NULL OR e.tenant = :tenant::text)
    AND NOT EXISTS (SELECT FROM timebell.event_seals s WHERE s.event_id = e.id)
