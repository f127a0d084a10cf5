-- Paid for up to a later instant; never an earlier one.
UPDATE marketplace.staffing_bookings
SET funded_period_end = :funded_period_end::timestamptz, revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND funded_period_end < :funded_period_end::timestamptz
