-- Occurrences of claimed schedules that are over and that nobody paid for: something expired, whether it was put away
-- yet or not, nothing was done, and nothing can still be done. Each is looked at once.
WITH missed AS (
    UPDATE timebell.occurrences o SET state = 'missed'
    FROM unnest(:schedule_ids::uuid[], :over_ats::timestamptz[]) AS l(schedule_id, over_at)
    JOIN timebell.schedules s ON s.id = l.schedule_id
    WHERE o.schedule_id = l.schedule_id AND o.occurs_at > s.settled_until AND o.occurs_at <= coalesce(l.over_at, (:over_ats::timestamptz[])[1])
        AND o.state = 'planned'
        AND NOT EXISTS (SELECT FROM timebell.agenda_done d WHERE d.tenant = o.tenant
            AND d.subject = 'occurrence:' || o.id AND d.state NOT IN ('expired', 'skipped'))
        AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = o.tenant AND j.subject = 'occurrence:' || o.id
            AND (j.started_by IS NOT NULL OR j.expires_at IS NULL OR j.expires_at > coalesce(:now::timestamptz, now())))
        AND (EXISTS (SELECT FROM timebell.agenda_done d WHERE d.tenant = o.tenant
                AND d.subject = 'occurrence:' || o.id AND d.state = 'expired')
            OR EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = o.tenant AND j.subject = 'occurrence:' || o.id))
    RETURNING o.schedule_id
)
SELECT schedule_id, count(*)::integer AS missed_count FROM missed GROUP BY schedule_id
