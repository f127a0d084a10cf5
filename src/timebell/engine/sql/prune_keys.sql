-- Keys that outlived their job and have lapsed.
WITH lapsed AS (
    SELECT tenant, kind, key FROM timebell.job_keys
    WHERE expires_at <= coalesce(:now::timestamptz, now())
    ORDER BY expires_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
)
DELETE FROM timebell.job_keys k USING lapsed l
WHERE k.tenant = l.tenant AND k.kind = l.kind AND k.key = l.key
RETURNING k.key
