SELECT name, rate_per_second, burst, concurrency FROM timebell.queues WHERE name = :name::text
