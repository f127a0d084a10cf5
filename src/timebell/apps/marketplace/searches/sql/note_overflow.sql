UPDATE marketplace.saved_searches
SET has_overflow = true
WHERE tenant = :tenant::text AND id = ANY (:ids::uuid[]) AND NOT has_overflow
