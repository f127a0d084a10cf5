SELECT queue, tenant FROM timebell.queue_pauses ORDER BY queue, tenant
