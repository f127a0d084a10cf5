-- What is about a subject, or is named, and is in a digest that is being told.
SELECT n.id FROM timebell_notify.notifications n
JOIN timebell_notify.digests g ON g.tenant = n.tenant AND g.id = n.digest_id AND g.closed_at IS NOT NULL
WHERE n.tenant = :tenant::text AND (n.subject = :subject::text OR n.id = :id::uuid) AND n.settled_at IS NULL
ORDER BY n.id
