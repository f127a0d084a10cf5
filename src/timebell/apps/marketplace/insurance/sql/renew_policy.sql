-- Valid through another date, whatever it was before.
UPDATE marketplace.insurance_policies
SET expiration_date = :expiration_date::date, is_active = true, deactivated_at = NULL, replaced_by = NULL,
    revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
