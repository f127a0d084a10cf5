DELETE FROM marketplace.saved_searches WHERE tenant = :tenant::text AND user_id = :person::uuid
