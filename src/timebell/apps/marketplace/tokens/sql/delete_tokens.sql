-- Those that have expired, and those that nobody has used for a day, some at a time. What somebody is redeeming is left
-- to the next night.
WITH gone AS (
    DELETE FROM marketplace.magic_link_tokens d
    WHERE d.tenant = :tenant::text AND d.id IN (
        SELECT o.id FROM marketplace.magic_link_tokens o
        WHERE o.tenant = :tenant::text AND o.id IN (
            (SELECT e.id FROM marketplace.magic_link_tokens e
                WHERE e.tenant = :tenant::text AND e.expires_at < coalesce(:now::timestamptz, now())
                ORDER BY e.expires_at LIMIT :limit::integer)
            UNION
            (SELECT u.id FROM marketplace.magic_link_tokens u
                WHERE u.tenant = :tenant::text AND u.used = false
                    AND u.created_at < coalesce(:now::timestamptz, now()) - interval '24 hours'
                ORDER BY u.created_at LIMIT :limit::integer))
        LIMIT :limit::integer FOR UPDATE SKIP LOCKED)
    RETURNING d.expires_at
)
SELECT count(*)::integer AS deleted,
    (count(*) FILTER (WHERE g.expires_at < coalesce(:now::timestamptz, now())))::integer AS expired
FROM gone g
