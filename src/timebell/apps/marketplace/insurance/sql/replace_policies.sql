-- What had ended of a type has another in its place.
UPDATE marketplace.insurance_policies
SET replaced_by = :replaced_by::uuid, revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND company_id = :company_id::uuid AND type = :type::text AND NOT is_active
    AND replaced_by IS NULL
