-- How many unfinished jobs of each queue were due by now, and how many of them had begun.
SELECT j.queue, count(*) AS due_count, count(*) FILTER (WHERE j.started_by IS NOT NULL) AS started_count
FROM timebell.jobs j WHERE j.due_at <= coalesce(:now::timestamptz, now())
GROUP BY j.queue ORDER BY j.queue
