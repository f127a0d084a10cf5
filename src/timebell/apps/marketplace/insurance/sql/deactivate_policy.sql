UPDATE marketplace.insurance_policies
SET is_active = false, deactivated_at = coalesce(:now::timestamptz, now()), revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND is_active
