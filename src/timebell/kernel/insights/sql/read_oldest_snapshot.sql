-- Whoever keeps the oldest rows from being cleaned up, as far as this role may see. Vacuum does not count: nothing
-- waits for its snapshot.
SELECT a.pid, a.usename AS role, a.application_name, a.state, age(a.backend_xmin)::bigint AS age_transactions,
    a.xact_start AS transaction_started_at, a.query_start AS query_started_at,
    greatest(0, extract(epoch FROM coalesce(:lease_now::timestamptz, now()) - a.xact_start))::double precision
        AS age_seconds
FROM pg_stat_activity a
WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
    AND (a.datid IS NULL OR a.datname = current_database())
ORDER BY age(a.backend_xmin) DESC, a.xact_start, a.pid LIMIT 1
