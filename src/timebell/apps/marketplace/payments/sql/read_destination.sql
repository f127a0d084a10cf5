-- What the provider knows the lender of a booking by.
SELECT c.payment_account
FROM marketplace.staffing_bookings b
JOIN marketplace.companies c ON c.tenant = :tenant::text AND c.id = b.lender_company_id
WHERE b.tenant = :tenant::text AND b.id = :booking_id::uuid
