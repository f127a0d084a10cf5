-- Somebody who is erased has no role anywhere.
DELETE FROM marketplace.company_members WHERE tenant = :tenant::text AND recipient_id = :person::uuid
