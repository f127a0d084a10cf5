-- The bookings of a worker that go on.
SELECT id FROM marketplace.staffing_bookings
WHERE tenant = :tenant::text AND worker_id = :worker_id::uuid
    AND status IN ('Active', 'Payment_Paused_Dispute', 'Suspended_Insurance')
ORDER BY id LIMIT :limit::integer
