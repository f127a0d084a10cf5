-- Dead jobs by what killed them, newest first. The index is walked from one fingerprint to the next, tenant by
-- tenant, so the cost grows with the number of failures and not of jobs. The last step of each tenant's walk finds
-- no next fingerprint, and stands for the jobs that have none.
WITH RECURSIVE tenants (tenant) AS (
    SELECT coalesce(:tenant::text, (SELECT min(d.tenant) FROM timebell.dead_jobs d))
    UNION ALL
    SELECT (SELECT min(d.tenant) FROM timebell.dead_jobs d WHERE d.tenant > t.tenant)
    FROM tenants t WHERE t.tenant IS NOT NULL AND :tenant::text IS NULL
), prints (tenant, fingerprint) AS (
    SELECT t.tenant, (SELECT min(d.fingerprint) FROM timebell.dead_jobs d WHERE d.tenant = t.tenant)
    FROM tenants t WHERE t.tenant IS NOT NULL
    UNION ALL
    SELECT p.tenant, (
        SELECT min(d.fingerprint) FROM timebell.dead_jobs d WHERE d.tenant = p.tenant AND d.fingerprint > p.fingerprint)
    FROM prints p WHERE p.fingerprint IS NOT NULL
), page AS (
    SELECT p.tenant, p.fingerprint, latest.*
    FROM (SELECT tenant, fingerprint FROM prints LIMIT :look_max::integer) p
    CROSS JOIN LATERAL (
        (
            SELECT d.id, d.kind, d.error_class, d.error, d.reason, d.died_at FROM timebell.dead_jobs d
            WHERE d.tenant = p.tenant AND d.fingerprint = p.fingerprint
            ORDER BY d.died_at DESC, d.id DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT d.id, d.kind, d.error_class, d.error, d.reason, d.died_at FROM timebell.dead_jobs d
            WHERE d.tenant = p.tenant AND d.fingerprint IS NULL AND p.fingerprint IS NULL
            ORDER BY d.died_at DESC, d.id DESC LIMIT 1
        )
    ) latest
    WHERE (latest.died_at, latest.id) < (
        coalesce(:before_at::timestamptz, 'infinity'), coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY latest.died_at DESC, latest.id DESC LIMIT :limit::integer + 1
)
SELECT page.tenant, page.fingerprint, page.kind, page.error_class, page.error, page.reason, page.id,
    page.died_at AS last_died_at, counted.first_died_at, counted.job_count
FROM page
CROSS JOIN LATERAL (
    SELECT min(d.died_at) AS first_died_at, count(*) AS job_count
    FROM (
        (
            SELECT d.died_at FROM timebell.dead_jobs d
            WHERE d.tenant = page.tenant AND d.fingerprint = page.fingerprint
            ORDER BY d.died_at, d.id LIMIT :count_max::integer + 1
        )
        UNION ALL
        (
            SELECT d.died_at FROM timebell.dead_jobs d
            WHERE d.tenant = page.tenant AND d.fingerprint IS NULL AND page.fingerprint IS NULL
            ORDER BY d.died_at, d.id LIMIT :count_max::integer + 1
        )
    ) d
) counted
ORDER BY page.died_at DESC, page.id DESC
