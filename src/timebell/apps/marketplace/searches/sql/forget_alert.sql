-- Nobody was told after all: whoever is listed again is told of again.
DELETE FROM marketplace.search_alerts
WHERE tenant = :tenant::text AND search_id = :search_id::uuid AND worker_id = :worker_id::uuid AND event = :event::uuid
    AND state = 'told'
