-- Notifications that something was reported of, with where each of their deliveries stands.
SELECT n.id, n.state, n.reason, n.settled_at IS NOT NULL AS is_settled, coalesce(:now::timestamptz, now()) AS now,
    (SELECT jsonb_agg(jsonb_build_array(d.state, d.reason) ORDER BY d.created_at, d.id)::text
        FROM timebell_notify.deliveries d WHERE d.tenant = n.tenant AND d.notification_id = n.id) AS standings
FROM timebell_notify.notifications n
WHERE n.tenant = :tenant::text AND n.id = ANY (:ids::uuid[])
ORDER BY n.id FOR UPDATE OF n
