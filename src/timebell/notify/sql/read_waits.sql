-- Which of these wait, and which of them were called; and, as one without an id, whether anybody else waits.
SELECT w.notification_id, w.called_at IS NOT NULL AS is_called
FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND w.notification_id = ANY (:ids::uuid[])
UNION ALL
(SELECT NULL, false FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND NOT w.notification_id = ANY (:ids::uuid[])
LIMIT 1)
