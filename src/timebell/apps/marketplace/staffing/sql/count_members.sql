SELECT count(*) AS count FROM (SELECT FROM marketplace.company_members
    WHERE tenant = :tenant::text AND company_id = :company_id::uuid LIMIT :limit::integer) counted
