-- Schedules of which something was owed lately and not paid in time; at most so many occurrences are looked at.
SELECT m.schedule_id, min(m.tenant) AS tenant, count(*) AS missed_count, max(m.occurs_at) AS last_at
FROM (
    SELECT o.schedule_id, o.tenant, o.occurs_at FROM timebell.occurrences o
    WHERE o.state = 'missed' AND o.occurs_at <= coalesce(:now::timestamptz, now())
        AND o.occurs_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
    ORDER BY o.occurs_at DESC, o.id DESC LIMIT :rows_max::integer
) m
WHERE m.schedule_id > :after::uuid
GROUP BY m.schedule_id ORDER BY m.schedule_id LIMIT :limit::integer
