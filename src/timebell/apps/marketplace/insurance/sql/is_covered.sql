-- Whether a company has an insurance of that type which is valid on that day.
SELECT EXISTS (SELECT FROM marketplace.insurance_policies p
    WHERE p.tenant = :tenant::text AND p.company_id = :company_id::uuid AND p.is_active
        AND p.expiration_date >= :today::date AND p.type = :type::text) AS is_covered
