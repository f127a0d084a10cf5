SELECT EXISTS (SELECT FROM marketplace.insurance_stops s
    WHERE s.tenant = :tenant::text AND s.booking_id = :booking_id::uuid) AS is_stopped
