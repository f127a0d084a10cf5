-- What waits in digests, the first due first.
SELECT n.id FROM timebell_notify.notifications n
WHERE n.tenant = :tenant::text AND n.digest_id = ANY (:digest_ids::uuid[]) AND n.settled_at IS NULL
ORDER BY n.due_at, n.id LIMIT :limit::integer
