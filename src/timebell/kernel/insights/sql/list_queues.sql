SELECT q.name, q.rate_per_second, q.burst, q.concurrency FROM timebell.queues q ORDER BY q.name
