SELECT quotas::text AS quotas FROM timebell_web.tenants WHERE tenant = :tenant
