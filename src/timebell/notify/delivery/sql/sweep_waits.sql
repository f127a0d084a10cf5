-- The next so many that wait: those whose job has ended or is dead are gone. Answers how far it came. Each job is looked
-- for by itself: joined, all that anybody is owed might be read.
WITH looked_at AS (
    SELECT w.notification_id, w.tenant FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text AND (:after::uuid IS NULL OR w.notification_id > :after::uuid)
    ORDER BY w.notification_id LIMIT :most::integer
), gone AS (
    DELETE FROM timebell_notify.provider_waits w USING looked_at l
    WHERE w.provider = :provider::text AND w.notification_id = l.notification_id
        AND (SELECT true FROM timebell_notify.owed o WHERE o.tenant = l.tenant AND o.id = l.notification_id
            AND NOT o.is_dead LIMIT 1) IS NULL
    RETURNING 1
)
SELECT (SELECT l.notification_id FROM looked_at l ORDER BY l.notification_id DESC LIMIT 1) AS last,
    (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM gone) AS gone
