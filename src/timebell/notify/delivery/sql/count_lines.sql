-- How many of each of these tenants wait, and how many tenants do. Each tenant is found from the one before by the index.
WITH RECURSIVE waiting AS (
    (SELECT w.tenant FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text AND w.called_at IS NULL ORDER BY w.tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT w.tenant FROM timebell_notify.provider_waits w
        WHERE w.provider = :provider::text AND w.called_at IS NULL AND w.tenant > before.tenant
        ORDER BY w.tenant LIMIT 1)
    FROM waiting before WHERE before.tenant IS NOT NULL
)
SELECT asked.tenant, (SELECT count(*) FROM waiting WHERE tenant IS NOT NULL) AS tenant_count,
    count(*) FILTER (WHERE w.lane = 0) AS critical_count, count(w.lane) AS waiting_count
FROM unnest(:tenants::text[]) AS asked(tenant)
LEFT JOIN LATERAL (
    SELECT w.lane FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text AND w.called_at IS NULL AND w.tenant = asked.tenant
    ORDER BY w.lane LIMIT :most::integer
) w ON true
GROUP BY asked.tenant
