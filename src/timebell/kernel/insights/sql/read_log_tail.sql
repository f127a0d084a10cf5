-- The newest two days of the log that hold anything, and the page at which the end of each begins. The log is only
-- ever appended to, so its newest rows lie at the end of the file, and need no index that every finish would pay for.
SELECT day.from_at, day.from_at + interval '1 day' AS until_at,
    greatest(0, pg_relation_size(c.oid) / current_setting('block_size')::bigint - :pages_max::bigint) AS first_page
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS from_at
) day
WHERE i.inhparent = 'timebell.job_log'::regclass AND pg_relation_size(c.oid) > 0
ORDER BY c.relname DESC
LIMIT 2
