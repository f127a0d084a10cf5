-- What a recipient did with entries of its inbox; one that has the status already is left as it is, and comes back too.
WITH locked AS (
    SELECT seq FROM timebell_notify.inbox
    WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND id = ANY (:ids::uuid[])
    ORDER BY seq FOR UPDATE
)
UPDATE timebell_notify.inbox i
SET status = :status::text,
    updated_at = CASE WHEN i.status = :status::text THEN i.updated_at ELSE coalesce(:now::timestamptz, now()) END
FROM locked
WHERE i.tenant = :tenant::text AND i.recipient_id = :recipient_id::uuid AND i.seq = locked.seq
RETURNING i.id, i.seq, i.recipient_id, i.type, i.title, i.description, i.status, i.priority, i.payload::text AS payload,
    i.subject, i.due_at, i.created_at, i.updated_at
