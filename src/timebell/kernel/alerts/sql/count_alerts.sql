-- How many alerts of all tenants are open, by rule and severity; at most so many are counted.
SELECT o.rule, o.severity, count(*) AS open_count
FROM (SELECT a.rule, a.severity FROM timebell.alerts a WHERE a.closed_at IS NULL AND a.opened_at IS NOT NULL
    LIMIT :rows_max::integer) o
GROUP BY o.rule, o.severity ORDER BY o.rule, o.severity
