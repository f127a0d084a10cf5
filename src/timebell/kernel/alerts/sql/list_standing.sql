-- The alerts of a rule that are open or only seen, of all tenants, in the order of tenant and subject.
SELECT a.id, a.tenant, a.subject, a.detail, a.seen_at, a.opened_at IS NOT NULL AS is_open
FROM timebell.alerts a
WHERE a.rule = :rule::text AND a.closed_at IS NULL
    AND (a.tenant, a.subject) > (:after_tenant::text, :after_subject::text)
ORDER BY a.tenant, a.subject LIMIT :limit::integer
