-- How many unfinished jobs there are and how they are spread over the queues, as the planner's statistics have it.
-- The number is NULL for a table that was never analysed, which is a small one.
SELECT size.job_count, spread.queue, spread.fraction
FROM (
    SELECT CASE WHEN c.reltuples >= 0 AND c.relpages > 0 THEN
        c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::bigint) END AS job_count
    FROM pg_class c WHERE c.oid = 'timebell.jobs'::regclass
) size
LEFT JOIN (
    SELECT common.queue, common.fraction
    FROM pg_stats s
    CROSS JOIN LATERAL unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS common(queue, fraction)
    WHERE s.schemaname = 'timebell' AND s.tablename = 'jobs' AND s.attname = 'queue'
) spread ON true
ORDER BY spread.queue
