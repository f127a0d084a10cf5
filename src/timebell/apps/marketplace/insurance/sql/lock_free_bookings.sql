-- Those of some bookings that nobody else has; whoever must not wait leaves out the others.
SELECT id FROM marketplace.staffing_bookings
WHERE tenant = :tenant::text AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED
