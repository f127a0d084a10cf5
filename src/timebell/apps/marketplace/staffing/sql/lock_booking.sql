-- Of those who change something about one booking at once, one goes on; it reads it by another statement, and sees what was
-- written before.
SELECT id FROM marketplace.staffing_bookings WHERE tenant = :tenant::text AND id = :id::uuid FOR UPDATE
