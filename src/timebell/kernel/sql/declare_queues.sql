-- The queues of the loaded apps, with their limits; the last node to start decides.
WITH declared AS (
    SELECT * FROM unnest(:names::text[], :rates::double precision[], :bursts::integer[], :concurrencies::integer[])
        AS q(name, rate_per_second, burst, concurrency)
), limited AS (
    INSERT INTO timebell.queue_rates (queue, next_free_at)
    SELECT name, '-infinity' FROM declared WHERE rate_per_second IS NOT NULL
    ON CONFLICT DO NOTHING
)
INSERT INTO timebell.queues AS q (name, rate_per_second, burst, concurrency)
SELECT name, rate_per_second, burst, concurrency FROM declared
ON CONFLICT (name) DO UPDATE SET rate_per_second = excluded.rate_per_second, burst = excluded.burst,
    concurrency = excluded.concurrency
WHERE (q.rate_per_second, q.burst, q.concurrency)
    IS DISTINCT FROM (excluded.rate_per_second, excluded.burst, excluded.concurrency)
