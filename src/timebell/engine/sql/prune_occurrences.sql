-- Occurrences that were over long ago and whose agenda is forgotten, with what was changed about them and about earlier
-- ones. The cursor alone keeps an occurrence from being planned again, so it must have passed both where one is and where
-- its recurrence has it; two days cover every timezone. Looked at as in prune_agendas.
WITH looked_at AS MATERIALIZED (
    SELECT o.id, o.tenant, o.schedule_id, o.original_local, o.occurs_at FROM timebell.occurrences o
    WHERE (o.occurs_at, o.id) > (:after::timestamptz, :after_id::uuid)
        AND o.occurs_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY o.occurs_at, o.id LIMIT :limit::integer
), old AS MATERIALIZED (
    SELECT l.id, l.schedule_id, l.original_local FROM looked_at l JOIN timebell.schedules s ON s.id = l.schedule_id
    WHERE l.occurs_at < s.planned_until
        AND l.original_local < s.planned_until AT TIME ZONE 'UTC' - interval '2 days'
        AND NOT EXISTS (SELECT FROM timebell.agendas a WHERE a.tenant = l.tenant AND a.subject = 'occurrence:' || l.id)
), forgotten AS (
    DELETE FROM timebell.occurrence_overrides c
    USING (SELECT schedule_id, max(original_local) AS last_local FROM old GROUP BY schedule_id) AS o
    WHERE c.schedule_id = o.schedule_id AND c.original_local <= o.last_local
        AND coalesce(c.new_local, c.original_local) <= o.last_local
), pruned AS (
    DELETE FROM timebell.occurrences p USING old o WHERE p.id = o.id
)
SELECT occurs_at, id, count(*) OVER () AS looked_at_count FROM looked_at ORDER BY occurs_at DESC, id DESC LIMIT 1
