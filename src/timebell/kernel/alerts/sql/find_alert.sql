-- The alert that stands for a rule and a subject of a tenant.
SELECT a.id FROM timebell.alerts a
WHERE a.rule = :rule::text AND a.tenant BETWEEN :tenant::text AND :tenant::text AND a.subject = :subject::text
    AND a.closed_at IS NULL AND a.opened_at IS NOT NULL
