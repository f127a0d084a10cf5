-- The digest that a notification is in, if its job ran before. is_owed: somebody is going to tell that digest, or gave
-- up on it, which is_given_up says.
SELECT n.settled_at IS NOT NULL AS is_settled, n.due_at, n.digest_id, g.key, g.closes, g.closes_at,
    g.closed_at IS NOT NULL AS is_closed, g.notification_id,
    o.id IS NOT NULL AS is_owed, coalesce(o.is_dead, false) AS is_given_up
FROM timebell_notify.notifications n
LEFT JOIN timebell_notify.digests g ON g.tenant = n.tenant AND g.id = n.digest_id
LEFT JOIN timebell_notify.owed o ON o.tenant = g.tenant AND o.id = g.notification_id
WHERE n.tenant = :tenant::text AND n.id = :id::uuid
