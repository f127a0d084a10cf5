-- The insurances of some companies, the oldest first. Each company's are read no further than a page goes.
SELECT p.id, p.company_id, p.type, p.expiration_date, p.is_active, p.deactivated_at, p.replaced_by, p.revision, p.created_at,
    p.updated_at, c.name AS company_name
FROM unnest(:company_ids::uuid[]) AS own(id)
JOIN marketplace.companies c ON c.tenant = :tenant::text AND c.id = own.id, LATERAL (
    SELECT p.id, p.company_id, p.type, p.expiration_date, p.is_active, p.deactivated_at, p.replaced_by, p.revision,
        p.created_at, p.updated_at
    FROM marketplace.insurance_policies p
    WHERE p.tenant = :tenant::text AND p.company_id = own.id
        AND p.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
        AND (:is_active::boolean IS NULL OR p.is_active = :is_active::boolean)
    ORDER BY p.id LIMIT :limit::integer + 1) p
ORDER BY p.id LIMIT :limit::integer + 1
