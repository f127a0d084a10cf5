UPDATE timebell_web.tenants SET quotas = :quotas::jsonb WHERE tenant = :tenant
RETURNING tenant
