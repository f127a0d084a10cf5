-- Those of a batch that have ended. Whoever renews one of them meanwhile is waited for, and then it is left alone.
UPDATE marketplace.insurance_policies
SET is_active = false, deactivated_at = coalesce(:now::timestamptz, now()), revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = ANY (:ids::uuid[]) AND is_active AND expiration_date < :today::date
RETURNING id, company_id, type, expiration_date, revision
