-- The tenants that a tenant sees: `default` administers all, the others see themselves.
SELECT tenant, name, created_at
FROM (
    (SELECT * FROM timebell_web.tenants
    WHERE :asking::text = 'default' AND tenant > (SELECT coalesce(:after::text, ''))
    ORDER BY tenant LIMIT :limit::integer + 1)
    UNION ALL
    (SELECT * FROM timebell_web.tenants
    WHERE :asking::text <> 'default' AND tenant = :asking::text AND tenant > (SELECT coalesce(:after::text, '')))
) seen
ORDER BY tenant LIMIT :limit::integer + 1
