-- The next free starts of a rate limit, each given away once, whoever asks: in whole microseconds, and the spacing is
-- rounded up, so that a rate may be missed by a microsecond and is never exceeded.
WITH locked AS (
    SELECT r.queue, greatest(r.next_free_at, '1970-01-01Z') AS next_free_at, q.rate_per_second, q.burst
    FROM timebell.queue_rates r JOIN timebell.queues q ON q.name = r.queue
    WHERE r.queue = :queue::text AND q.rate_per_second IS NOT NULL
    FOR UPDATE OF r
), spaced AS (
    SELECT queue, ceil(1000000 / (rate_per_second / :stretch::double precision))::bigint AS spacing, burst,
        (extract(epoch FROM next_free_at) * 1000000)::bigint AS next_free,
        (extract(epoch FROM coalesce(:now::timestamptz, now())) * 1000000)::bigint AS now_us
    FROM locked
), begun AS (
    SELECT queue, spacing, now_us, greatest(next_free, now_us - (burst - 1) * spacing) AS first_us FROM spaced
), counted AS (
    SELECT queue, spacing, first_us, now_us, least(:wanted::bigint,
        greatest(0, floor((now_us + :window_us::bigint - first_us)::numeric / spacing)::bigint + 1)) AS granted
    FROM begun
)
UPDATE timebell.queue_rates r
SET next_free_at = CASE WHEN c.granted = 0 THEN r.next_free_at
    ELSE timestamptz '1970-01-01Z' + (c.first_us + c.granted * c.spacing) * interval '1 microsecond' END
FROM counted c WHERE r.queue = c.queue
RETURNING timestamptz '1970-01-01Z' + c.first_us * interval '1 microsecond' AS first_at, c.granted, c.spacing AS spacing_us,
    timestamptz '1970-01-01Z' + c.now_us * interval '1 microsecond' AS told_at
