-- What is noted and was not told yet takes the version. is_waiting: it waits for a person to mend its text.
WITH pending AS (
    SELECT n.tenant, n.id FROM timebell_notify.notifications n
    WHERE n.tenant = :tenant::text AND n.template = :key::text AND n.settled_at IS NULL
        AND n.template_version <> :version::integer
    ORDER BY n.id FOR NO KEY UPDATE
)
UPDATE timebell_notify.notifications n
SET template_version = :version::integer
FROM pending p
WHERE n.tenant = p.tenant AND n.id = p.id
RETURNING n.id, coalesce(n.reason = 'template_incomplete', false) AS is_waiting
