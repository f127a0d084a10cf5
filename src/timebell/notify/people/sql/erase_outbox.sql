-- Forgets what demo mode kept. What was being kept meanwhile waited for the deliveries to be forgotten, and is seen only
-- by a statement that comes after that.
DELETE FROM timebell_notify.outbox WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
