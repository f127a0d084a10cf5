SELECT kind FROM timebell.dead_jobs WHERE tenant = :tenant::text AND id = :id::uuid
