-- How many deliveries of all tenants reached somebody, or would have, and how many failed. It reads them all: for a
-- sandbox, which is small.
SELECT count(*) FILTER (WHERE state IN ('sent', 'delivered', 'suppressed')) AS told_count,
    count(*) FILTER (WHERE state = 'failed') AS failed_count
FROM timebell_notify.deliveries
