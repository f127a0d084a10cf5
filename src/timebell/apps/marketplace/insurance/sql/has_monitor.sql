SELECT EXISTS (SELECT FROM marketplace.insurance_monitors m WHERE m.tenant = :tenant::text) AS has_one
