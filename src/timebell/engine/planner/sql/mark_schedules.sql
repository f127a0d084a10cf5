-- Schedules of a timezone whose data changed, a bounded number past where the last look ended, are to be planned anew.
WITH looked_at AS MATERIALIZED (
    SELECT id FROM timebell.schedules
    WHERE timezone = :timezone::text AND id > :after::uuid
    ORDER BY id LIMIT :limit::integer
), marked AS (
    UPDATE timebell.schedules s SET plan_at = coalesce(:now::timestamptz, now())
    FROM looked_at l
    WHERE s.id = l.id AND s.state = 'active' AND s.timezone_version < :timezone_version::text
)
SELECT count(*)::integer AS looked_at_count, (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last_id FROM looked_at
