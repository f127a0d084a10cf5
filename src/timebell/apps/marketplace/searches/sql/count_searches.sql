SELECT count(*)::integer AS count
FROM marketplace.saved_searches s WHERE s.tenant = :tenant::text AND s.user_id = :user_id::uuid
