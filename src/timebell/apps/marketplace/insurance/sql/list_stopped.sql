-- What a company's want of an insurance has stopped, some at a time.
SELECT s.booking_id AS id FROM marketplace.insurance_stops s
WHERE s.tenant = :tenant::text AND s.company_id = :company_id::uuid AND s.type = :type::text AND s.booking_id > :after::uuid
ORDER BY s.booking_id LIMIT :limit::integer
