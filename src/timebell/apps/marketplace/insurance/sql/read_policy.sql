SELECT p.id, p.company_id, p.type, p.expiration_date, p.is_active, p.deactivated_at, p.replaced_by, p.revision, p.created_at,
    p.updated_at, c.name AS company_name
FROM marketplace.insurance_policies p
JOIN marketplace.companies c ON c.tenant = p.tenant AND c.id = p.company_id
WHERE p.tenant = :tenant::text AND p.id = :id::uuid
