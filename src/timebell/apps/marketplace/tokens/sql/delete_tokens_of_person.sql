DELETE FROM marketplace.magic_link_tokens WHERE tenant = :tenant::text AND user_id = :person::uuid
