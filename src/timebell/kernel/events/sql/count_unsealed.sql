-- How many events have no seal yet, and since when, and how many should have had one for long. Looks at all of them; only
-- who verifies the chains asks. When they were recorded the database says by itself, so it is compared with its own time.
SELECT count(*) AS unsealed_count, min(e.recorded_at) AS unsealed_since,
    count(*) FILTER (WHERE e.recorded_at
        < coalesce(:lease_now::timestamptz, now()) - :overdue_seconds::double precision * interval '1 second') AS overdue_count
FROM timebell.events e
WHERE (:tenant::text IS NULL OR e.tenant = :tenant::text)
    AND NOT EXISTS (SELECT FROM timebell.event_seals s WHERE s.event_id = e.id)
