UPDATE marketplace.disputes
SET timed_out_at = coalesce(:now::timestamptz, now()), updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND timed_out_at IS NULL
