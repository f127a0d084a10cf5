SELECT subject FROM sequences.subjects WHERE tenant = :tenant::text AND subject = :subject::text FOR UPDATE SKIP LOCKED
