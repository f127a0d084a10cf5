-- What became of deliveries by each channel within a time; so many of the newest are looked at.
SELECT d.channel, count(*) FILTER (WHERE d.state = 'failed') AS failed_count, count(*) AS ended_count
FROM (
    SELECT d.channel, d.state, d.updated_at FROM timebell_notify.deliveries d
    WHERE d.provider NOT IN ('', 'inbox') ORDER BY d.id DESC LIMIT :rows_max::integer
) d
WHERE d.state IN ('failed', 'sent', 'delivered')
    AND d.updated_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
GROUP BY d.channel ORDER BY d.channel
