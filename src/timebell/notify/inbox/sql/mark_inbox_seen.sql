-- Everything unseen in a recipient's inbox is seen, up to the last entry that was shown to it.
WITH locked AS (
    SELECT seq FROM timebell_notify.inbox
    WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND status = 'unseen'
        AND seq <= :up_to::bigint
    ORDER BY seq FOR UPDATE
), seen AS (
    UPDATE timebell_notify.inbox i
    SET status = 'seen', updated_at = coalesce(:now::timestamptz, now())
    FROM locked
    WHERE i.tenant = :tenant::text AND i.recipient_id = :recipient_id::uuid AND i.seq = locked.seq
        AND i.status = 'unseen'
    RETURNING i.seq
)
SELECT count(*) FROM seen
