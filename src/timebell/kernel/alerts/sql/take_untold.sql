-- Alerts that operators have yet to be told of, those that opened first: that they opened, or that critical ones have
-- closed. What nobody could be told of within a day after it closed is over.
SELECT a.id, a.tenant, a.rule, a.severity, a.subject, a.detail, a.is_of_engine, a.told = 'nothing' AS is_opening
FROM timebell.alerts a
WHERE a.opened_at IS NOT NULL AND a.told <> 'all'
    AND (a.told = 'nothing' OR (a.closed_at IS NOT NULL AND a.severity = 'critical'))
    AND (a.closed_at IS NULL OR a.closed_at > coalesce(:now::timestamptz, now()) - interval '1 day')
ORDER BY a.opened_at, a.id LIMIT :limit::integer FOR UPDATE SKIP LOCKED
