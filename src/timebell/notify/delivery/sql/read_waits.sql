-- Which of these wait, and which of them were called. Without an id: who else was called and keeps its place, and, as one
-- that was not called, whether anybody else waits at all.
SELECT w.notification_id, w.called_at IS NOT NULL AS is_called, w.turn, w.last_turn
FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND w.notification_id = ANY (:ids::uuid[])
UNION ALL
SELECT NULL, true, w.turn, w.last_turn FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND NOT w.notification_id = ANY (:ids::uuid[])
    AND w.called_at IS NOT NULL AND w.kept_until > coalesce(:now::timestamptz, clock_timestamp())
UNION ALL
(SELECT NULL, false, NULL, NULL FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND NOT w.notification_id = ANY (:ids::uuid[])
LIMIT 1)
