DELETE FROM marketplace.insurance_warnings WHERE tenant = :tenant::text AND recipient_id = :person::uuid
