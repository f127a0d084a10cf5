-- The projects of some companies, the oldest first. Each company's are read no further than a page goes.
SELECT p.id, p.company_id, p.name, p.timezone, p.created_at
FROM unnest(:company_ids::uuid[]) AS own(id), LATERAL (
    SELECT p.id, p.company_id, p.name, p.timezone, p.created_at FROM marketplace.projects p
    WHERE p.tenant = :tenant::text AND p.company_id = own.id
        AND p.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY p.id LIMIT :limit::integer + 1) p
ORDER BY p.id LIMIT :limit::integer + 1
