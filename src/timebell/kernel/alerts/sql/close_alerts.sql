-- Alerts that are open close, once. That a warning has closed nobody is told.
UPDATE timebell.alerts a SET closed_at = coalesce(:now::timestamptz, now()),
    told = CASE WHEN a.told = 'opening' AND a.severity = 'warning' THEN 'all' ELSE a.told END
WHERE a.tenant = :tenant::text AND a.id = ANY(:ids::uuid[]) AND a.opened_at IS NOT NULL AND a.closed_at IS NULL
RETURNING a.id, a.subject, a.detail
