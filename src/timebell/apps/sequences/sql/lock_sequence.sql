-- Of those who change one sequence at once, one goes on; it reads it by another statement, and sees what was written before.
SELECT id FROM sequences.sequences WHERE tenant = :tenant::text AND id = :id::uuid AND deleted_at IS NULL FOR UPDATE
