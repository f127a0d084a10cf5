SELECT tenant, name, created_at FROM timebell_web.tenants
WHERE tenant = :tenant AND (:asking = 'default' OR tenant = :asking)
