-- The queues that have a limit of either kind.
SELECT name, rate_per_second, burst, concurrency FROM timebell.queues
WHERE rate_per_second IS NOT NULL OR concurrency IS NOT NULL
ORDER BY name
