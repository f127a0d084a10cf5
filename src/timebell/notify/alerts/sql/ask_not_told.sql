-- Of each tenant, how many were not told of what does not wait, or perhaps not, within a time, and what the last of them was
-- about; so many of the newest are looked at.
SELECT n.tenant, count(*) AS not_told_count, (array_agg(n.template ORDER BY n.settled_at DESC))[1] AS template,
    (array_agg(n.subject ORDER BY n.settled_at DESC))[1] AS subject
FROM (
    SELECT w.tenant, w.template, w.subject, w.settled_at FROM timebell_notify.notifications w
    WHERE w.state IN ('failed', 'uncertain') AND w.urgency <> 'normal'
        AND w.settled_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
    ORDER BY w.settled_at DESC LIMIT :rows_max::integer
) n
WHERE (n.tenant COLLATE "C", '') > (:after_tenant::text, :after_subject::text COLLATE "C")
GROUP BY n.tenant ORDER BY n.tenant COLLATE "C" LIMIT :limit::integer
