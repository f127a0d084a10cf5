-- Whether something that waits in a digest could not be taken just now: it runs, to look what became of the digest, or
-- somebody is deciding about it.
SELECT EXISTS (
    SELECT FROM timebell_notify.notifications n
    JOIN timebell_notify.owed o ON o.tenant = n.tenant AND o.id = n.id AND o.cursor = :cursor::jsonb
    WHERE n.tenant = :tenant::text AND n.digest_id = :digest_id::uuid AND n.settled_at IS NULL
        AND n.id = ANY (:waiting::uuid[]) AND n.id <> ALL (:taken::uuid[])
) AS is_busy
