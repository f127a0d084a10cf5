DELETE FROM meetings.busy WHERE tenant = :tenant::text AND recipient_id = :person::uuid
