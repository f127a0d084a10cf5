-- By what the provider knows the borrower of a booking, and its card on file.
SELECT c.payment_customer, c.payment_method
FROM marketplace.staffing_bookings b
JOIN marketplace.companies c ON c.tenant = b.tenant AND c.id = b.borrower_company_id
WHERE b.tenant = :tenant::text AND b.id = :booking_id::uuid
