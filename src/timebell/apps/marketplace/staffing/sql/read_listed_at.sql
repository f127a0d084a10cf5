SELECT w.listed_at FROM marketplace.workers w WHERE w.tenant = :tenant::text AND w.id = :id::uuid
