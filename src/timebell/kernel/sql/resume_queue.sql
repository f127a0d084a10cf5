-- The engine's nodes bring the parked jobs back in bounded batches once the pause is gone.
DELETE FROM timebell.queue_pauses WHERE queue = :queue::text AND tenant = :tenant::text RETURNING queue
