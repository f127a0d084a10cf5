-- The jobs of a tenant that came to an end, the first enqueued first, each with the last thing that the log says of
-- it; looked at as in list_unfinished. Versions tell what came last: logged_at is when a transaction began. The job at
-- which looking stopped may have more entries than were seen, so it is left to the next page.
WITH looked AS MATERIALIZED (
    SELECT l.id, l.tenant, l.queue, l.kind, l.subject, l.key, l.step, l.version, l.attempt, l.due_at, l.started_at,
        l.finished_at, l.logged_at, l.correlation_id, l.state, l.reason, l.error_class, l.error
    FROM timebell.job_log l
    WHERE l.tenant = :tenant::text
        AND l.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY l.id LIMIT :look_max::integer
), last AS (
    SELECT DISTINCT ON (l.id) l.* FROM looked l
    ORDER BY l.id, l.version DESC, l.state = 'pending', l.logged_at DESC
), counted AS (
    SELECT last.*, row_number() OVER (ORDER BY last.id DESC) AS from_end, least(count(*) OVER (), 2) AS end_number,
        (SELECT count(*) FROM looked) = :look_max::integer AS is_cut
    FROM last
), judged AS (
    SELECT counted.*, is_cut AND from_end = end_number AS is_end,
        state <> 'pending' AND (:state::text IS NULL OR state = :state::text)
            AND (:kind::text IS NULL OR kind = :kind::text) AND (:queue::text IS NULL OR queue = :queue::text)
            AND (:key::text IS NULL OR key = :key::text) AS is_match
    FROM counted
    WHERE NOT is_cut OR from_end >= end_number
)
SELECT * FROM judged
WHERE is_match OR is_end
ORDER BY id LIMIT :limit::integer + 1
