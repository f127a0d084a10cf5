SELECT id, company_id, name, timezone, created_at FROM marketplace.projects
WHERE tenant = :tenant::text AND id = :id::uuid
