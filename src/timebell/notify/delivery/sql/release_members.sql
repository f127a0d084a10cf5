-- What was in a digest when it closed and is not told with it: its job goes on, at another time perhaps, and joins the
-- next one; or there is no such job any more, since it was taken back.
UPDATE timebell_notify.notifications n
SET digest_id = NULL, held_until = NULL, state = CASE WHEN m.is_owed THEN 'pending' ELSE 'withdrawn' END,
    reason = CASE WHEN NOT m.is_owed THEN 'withdrawn' END,
    settled_at = CASE WHEN NOT m.is_owed THEN coalesce(:now::timestamptz, now()) END
FROM (
    SELECT r.id, EXISTS (SELECT FROM timebell_notify.owed o WHERE o.tenant = r.tenant AND o.id = r.id) AS is_owed
    FROM timebell_notify.notifications r
    WHERE r.tenant = :tenant::text AND r.digest_id = :digest_id::uuid AND r.settled_at IS NULL
        AND r.id <> ALL (:taken::uuid[])
) m
WHERE n.tenant = :tenant::text AND n.id = m.id
