-- What became of jobs in each minute. Where the end of the log that was read does not reach back over the whole
-- window, the minutes before it are left out, and the first one that it holds is known in part only.
WITH counted AS (
    SELECT day.first_page > 0 AS is_cut, day.from_at, c.*
    FROM unnest(:from_ats::timestamptz[], :until_ats::timestamptz[], :first_pages::bigint[])
        AS day(from_at, until_at, first_page)
    CROSS JOIN LATERAL (
        SELECT date_trunc('minute', l.finished_at) AS minute_at,
            count(*) FILTER (WHERE l.state = 'done') AS done_count,
            count(*) FILTER (WHERE l.state = 'pending'
                AND (l.reason IN ('retry', 'uncertain') OR l.error_class IS NOT NULL)) AS retried_count,
            count(*) FILTER (WHERE l.state = 'dead' AND l.reason IS DISTINCT FROM 'discarded') AS dead_count,
            count(*) FILTER (WHERE l.state = 'cancelled') AS cancelled_count,
            count(*) FILTER (WHERE l.state = 'expired') AS expired_count,
            count(*) FILTER (WHERE l.state = 'skipped') AS skipped_count
        FROM timebell.job_log l
        WHERE l.logged_at >= day.from_at AND l.logged_at < day.until_at
            AND l.ctid >= ('(' || day.first_page || ',0)')::tid
        GROUP BY 1
    ) c
), known AS (
    SELECT max(day.first_minute_at) AS from_at
    FROM (SELECT min(minute_at) AS first_minute_at FROM counted WHERE is_cut GROUP BY from_at) day
), present AS (
    SELECT date_trunc('minute', coalesce(:now::timestamptz, now())) AS minute_at
)
SELECT m.minute_at, coalesce(sum(c.done_count), 0)::bigint AS done_count,
    coalesce(sum(c.retried_count), 0)::bigint AS retried_count, coalesce(sum(c.dead_count), 0)::bigint AS dead_count,
    coalesce(sum(c.cancelled_count), 0)::bigint AS cancelled_count,
    coalesce(sum(c.expired_count), 0)::bigint AS expired_count,
    coalesce(sum(c.skipped_count), 0)::bigint AS skipped_count,
    coalesce(m.minute_at = (SELECT from_at FROM known), false) AS is_at_least
FROM present p
CROSS JOIN generate_series(
    p.minute_at - (:minutes::integer - 1) * interval '1 minute', p.minute_at, interval '1 minute') AS m(minute_at)
LEFT JOIN counted c ON c.minute_at = m.minute_at
WHERE m.minute_at >= coalesce((SELECT from_at FROM known), '-infinity')
GROUP BY m.minute_at
ORDER BY m.minute_at
