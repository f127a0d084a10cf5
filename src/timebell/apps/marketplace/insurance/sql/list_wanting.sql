-- Of which types some companies have had insurances, and have none that is valid on that day.
SELECT DISTINCT p.company_id, p.type FROM marketplace.insurance_policies p
WHERE p.tenant = :tenant::text AND p.company_id = ANY (:company_ids::uuid[])
    AND p.replaced_by IS NULL AND NOT (p.is_active AND p.expiration_date >= :today::date)
    AND NOT EXISTS (SELECT FROM marketplace.insurance_policies o
        WHERE o.tenant = :tenant::text AND o.company_id = p.company_id AND o.is_active
            AND o.expiration_date >= :today::date AND o.type = p.type)
ORDER BY p.company_id, p.type LIMIT :limit::integer
