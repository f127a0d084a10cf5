DELETE FROM marketplace.insurance_stops
WHERE tenant = :tenant::text AND booking_id = :booking_id::uuid AND company_id = :company_id::uuid AND type = :type::text
RETURNING booking_id
