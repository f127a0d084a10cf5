-- The digest that a notification is in, if its job ran before. is_owed: somebody is going to tell that digest.
SELECT n.settled_at IS NOT NULL AS is_settled, n.due_at, n.digest_id, g.key, g.closes, g.closes_at,
    g.closed_at IS NOT NULL AS is_closed, g.notification_id,
    EXISTS (SELECT FROM timebell_notify.owed o WHERE o.tenant = g.tenant AND o.id = g.notification_id)
        AS is_owed
FROM timebell_notify.notifications n
LEFT JOIN timebell_notify.digests g ON g.tenant = n.tenant AND g.id = n.digest_id
WHERE n.tenant = :tenant::text AND n.id = :id::uuid
