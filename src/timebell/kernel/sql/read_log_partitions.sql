-- The days that the log has a partition for.
SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'timebell.job_log'::regclass ORDER BY 1
