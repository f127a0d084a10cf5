-- The tenants that a tenant sees: `default` administers all, the others see themselves.
SELECT tenant, name, created_at FROM timebell_web.tenants
WHERE (:after::text IS NULL OR tenant > :after) AND (:asking = 'default' OR tenant = :asking)
ORDER BY tenant LIMIT :limit + 1
