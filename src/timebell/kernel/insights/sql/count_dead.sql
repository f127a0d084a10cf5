-- How many dead jobs wait for an operator, by queue; at most so many are looked at.
SELECT d.queue, count(*) AS dead_count
FROM (SELECT queue FROM timebell.dead_jobs LIMIT :rows_max::integer) d
GROUP BY d.queue ORDER BY d.queue
