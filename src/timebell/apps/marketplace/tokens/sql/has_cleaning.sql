SELECT EXISTS (SELECT FROM marketplace.token_cleanings c WHERE c.tenant = :tenant::text) AS is_there
