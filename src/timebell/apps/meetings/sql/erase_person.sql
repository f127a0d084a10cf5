DELETE FROM meetings.people WHERE tenant = :tenant::text AND recipient_id = :person::uuid
