-- How many unfinished jobs there are, as the planner's statistics have it, and where those are more than can be counted,
-- how they are spread over the queues, as a sample of the pages has it: of a table behind the wall between tenants the
-- statistics do not tell. The number is NULL for a table that was never analysed, which is a small one.
WITH size AS MATERIALIZED (
    SELECT CASE WHEN c.reltuples >= 0 AND c.relpages > 0 THEN c.reltuples / c.relpages * t.page_count END AS job_count,
        t.page_count
    FROM pg_class c
    CROSS JOIN LATERAL (SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint AS page_count) t
    WHERE c.oid = 'timebell.jobs'::regclass
), sample AS MATERIALIZED (
    SELECT j.queue, count(*) AS job_count
    FROM timebell.jobs j TABLESAMPLE SYSTEM ((
        SELECT CASE WHEN s.job_count > :rows_max::integer
            THEN least(100, 100.0 * :pages_max::integer / greatest(s.page_count, 1)) ELSE 0 END
        FROM size s
    ))
    GROUP BY j.queue
)
SELECT size.job_count, sample.queue, (sample.job_count / sum(sample.job_count) OVER ())::double precision AS fraction
FROM size LEFT JOIN sample ON true
ORDER BY sample.queue
