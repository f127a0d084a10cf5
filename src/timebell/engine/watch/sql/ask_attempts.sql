-- What attempts of each queue came to within a time, as far as the end of the log that is read reaches back.
SELECT l.queue, count(*) FILTER (WHERE l.state = 'done') AS done_count,
    count(*) FILTER (WHERE l.state = 'pending') AS retried_count, count(*) FILTER (WHERE l.state = 'dead') AS dead_count
FROM unnest(:from_ats::timestamptz[], :until_ats::timestamptz[], :first_pages::bigint[])
    AS day(from_at, until_at, first_page)
CROSS JOIN LATERAL (
    SELECT l.queue, l.state FROM timebell.job_log l
    WHERE l.logged_at >= day.from_at AND l.logged_at < day.until_at
        AND l.ctid >= ('(' || day.first_page || ',0)')::tid
        AND l.finished_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
        AND (l.state = 'done'
            OR (l.state = 'pending' AND (l.reason IN ('retry', 'uncertain') OR l.error_class IS NOT NULL))
            OR (l.state = 'dead' AND l.reason IS DISTINCT FROM 'discarded'))
) l
GROUP BY l.queue ORDER BY l.queue LIMIT :limit::integer
