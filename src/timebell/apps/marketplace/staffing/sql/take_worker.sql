-- No row comes back for a worker who is taken then: the constraint decides.
INSERT INTO marketplace.taken (tenant, booking_id, worker_id, number, during)
SELECT w.tenant, :booking_id::uuid, w.id, w.number, tstzrange(:start_at::timestamptz, :end_at::timestamptz)
FROM marketplace.workers w WHERE w.tenant = :tenant::text AND w.id = :worker_id::uuid
ON CONFLICT DO NOTHING
RETURNING booking_id
