-- Those that the daily run is about, by the day on which they end, some at a time: what has ended comes first.
SELECT p.id, p.company_id, p.type, p.expiration_date, c.name AS company_name
FROM marketplace.insurance_policies p
JOIN marketplace.companies c ON c.tenant = p.tenant AND c.id = p.company_id
WHERE p.tenant = :tenant::text AND p.is_active AND p.expiration_date <= :until::date
    AND (p.expiration_date, p.id) > (:after_date::date, :after_id::uuid)
ORDER BY p.expiration_date, p.id LIMIT :limit::integer
