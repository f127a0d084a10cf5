-- The last number in the inbox of each of these recipients. One who was erased, or is not the tenant's, does not come back.
SELECT r.id AS recipient_id, coalesce(e.last_seq, 0) AS last_seq
FROM timebell_notify.recipients r
LEFT JOIN timebell_notify.inbox_ends e ON e.tenant = r.tenant AND e.recipient_id = r.id
WHERE r.tenant = :tenant::text AND r.id = ANY (:recipient_ids::uuid[]) AND r.erased_at IS NULL
