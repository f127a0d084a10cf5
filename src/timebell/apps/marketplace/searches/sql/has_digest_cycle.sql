SELECT EXISTS (SELECT FROM marketplace.digest_cycles c
    WHERE c.tenant = :tenant::text AND c.timezone = :timezone::text) AS is_there
