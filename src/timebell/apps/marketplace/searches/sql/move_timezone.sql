UPDATE marketplace.saved_searches SET timezone = :timezone::text
WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND timezone <> :timezone::text
