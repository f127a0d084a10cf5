-- How many payments of each zone failed of those that were begun within a time and are settled, and of all zones of a
-- tenant where there are several. So many payments are looked at.
WITH settled AS (
    SELECT p.tenant, b.timezone, p.status = 'Failed' AS is_failed
    FROM (
        SELECT p.tenant, p.booking_id, p.status FROM marketplace.pending_payments p
        WHERE p.status IN ('Failed', 'Succeeded', 'Refunded')
            AND p.created_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
        LIMIT :rows_max::integer
    ) p
    JOIN marketplace.staffing_bookings b ON b.tenant = p.tenant AND b.id = p.booking_id
), counted AS (
    SELECT s.tenant COLLATE "C" AS tenant, coalesce('zone:' || s.timezone, '') COLLATE "C" AS subject,
        count(*) FILTER (WHERE s.is_failed) AS failed_count, count(*) AS settled_count
    FROM settled s
    GROUP BY GROUPING SETS ((s.tenant, s.timezone), (s.tenant))
    HAVING grouping(s.timezone) = 0 OR count(DISTINCT s.timezone) > 1
)
SELECT c.tenant, c.subject, c.failed_count, c.settled_count
FROM counted c
WHERE (c.tenant, c.subject) > (:after_tenant::text, :after_subject::text)
    OR (:after_tenant::text = '' AND :after_subject::text = '')
ORDER BY c.tenant, c.subject LIMIT :limit::integer
