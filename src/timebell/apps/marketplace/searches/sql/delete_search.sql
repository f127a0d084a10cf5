DELETE FROM marketplace.saved_searches WHERE tenant = :tenant::text AND id = :id::uuid RETURNING id
