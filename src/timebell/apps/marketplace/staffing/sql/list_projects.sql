-- All projects, the oldest first.
SELECT id, company_id, name, timezone, created_at FROM marketplace.projects
WHERE tenant = :tenant::text AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer + 1
