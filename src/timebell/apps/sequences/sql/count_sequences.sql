SELECT count(*) AS count FROM sequences.sequences WHERE tenant = :tenant::text AND deleted_at IS NULL
