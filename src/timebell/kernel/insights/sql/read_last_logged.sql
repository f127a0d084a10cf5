-- When the log was last written to, from the end of its newest days.
SELECT max(l.logged_at) AS last_logged_at
FROM unnest(:from_ats::timestamptz[], :until_ats::timestamptz[], :first_pages::bigint[])
    AS day(from_at, until_at, first_page)
CROSS JOIN LATERAL (
    SELECT max(l.logged_at) AS logged_at FROM timebell.job_log l
    WHERE l.logged_at >= day.from_at AND l.logged_at < day.until_at
        AND l.ctid >= ('(' || day.first_page || ',0)')::tid
) l
