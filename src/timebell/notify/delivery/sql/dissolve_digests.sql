-- Digests that are not going to be told, since the notifications that would tell them were withdrawn; in part, perhaps, they
-- had been told, or may have been.
UPDATE timebell_notify.digests g
SET closed_at = coalesce(g.closed_at, :now::timestamptz, now())
FROM (SELECT id FROM timebell_notify.digests
    WHERE tenant = :tenant::text AND notification_id = ANY (:notification_ids::uuid[])
    ORDER BY id FOR UPDATE) locked
WHERE g.tenant = :tenant::text AND g.id = locked.id
RETURNING g.id, g.notification_id,
    (SELECT n.state FROM timebell_notify.standing n WHERE n.tenant = g.tenant AND n.id = g.notification_id) AS state
