-- How late the newest first attempts began. An attempt that was put off before, by a retry, a snooze or a revival,
-- was late on purpose and does not count; one that was on time cannot have been, so only the late are asked.
WITH latest AS (
    SELECT l.* FROM unnest(:from_ats::timestamptz[], :until_ats::timestamptz[], :first_pages::bigint[])
        AS day(from_at, until_at, first_page)
    CROSS JOIN LATERAL (
        SELECT l.tenant, l.id, l.version, l.logged_at,
            greatest(0, extract(epoch FROM coalesce(l.started_at, l.finished_at) - l.due_at))::double precision AS seconds
        FROM timebell.job_log l
        WHERE l.logged_at >= day.from_at AND l.logged_at < day.until_at
            AND l.ctid >= ('(' || day.first_page || ',0)')::tid
            AND l.attempt = 1 AND (l.started_at IS NOT NULL OR l.state = 'done')
            AND l.finished_at > coalesce(:now::timestamptz, now()) - :minutes::integer * interval '1 minute'
            AND (:queue::text IS NULL OR l.queue = :queue::text)
        ORDER BY l.logged_at DESC, l.id DESC, l.version DESC LIMIT :rows_max::integer
    ) l
    ORDER BY l.logged_at DESC, l.id DESC, l.version DESC LIMIT :rows_max::integer
)
SELECT count(*) AS sample_count,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY l.seconds) AS p50_seconds,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY l.seconds) AS p99_seconds,
    max(l.seconds) AS seconds_max
FROM latest l
WHERE l.seconds < 1 OR (
    SELECT true FROM timebell.job_log e
    WHERE e.tenant = l.tenant AND e.id = l.id AND e.logged_at < l.logged_at
        AND e.state = 'pending' AND e.reason IS DISTINCT FROM 'moved'
    LIMIT 1
) IS NULL
