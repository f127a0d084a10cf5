-- Whether nobody may clock in until the disputes are resolved.
UPDATE marketplace.staffing_bookings
SET clock_in_hold = :is_held::boolean, revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
