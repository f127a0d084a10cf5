-- Tenants with insurances that end within 14 days and of which nobody was warned, although the daily run should have: so many
-- seconds are left to it. Where a company has no admin, nobody could be.
WITH run AS MATERIALIZED (
    SELECT date_trunc('day', coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second',
        'UTC') AS at
), day AS MATERIALIZED (
    SELECT (run.at AT TIME ZONE 'UTC')::date AS day FROM run
)
SELECT p.tenant, count(*) AS policy_count, min(p.expiration_date) AS oldest
FROM marketplace.insurance_policies p
WHERE p.is_active AND p.expiration_date BETWEEN (SELECT day FROM day) AND (SELECT day + 14 FROM day)
    AND p.updated_at < (SELECT run.at FROM run) AND p.tenant COLLATE "C" > (:after_tenant::text) COLLATE "C"
    AND NOT EXISTS (SELECT FROM marketplace.insurance_warnings w
        WHERE w.tenant = p.tenant AND w.policy_id = p.id AND w.expiration_date = p.expiration_date
            AND w.threshold = CASE WHEN p.expiration_date <= (SELECT day + 7 FROM day) THEN 7 ELSE 14 END)
    AND EXISTS (SELECT FROM marketplace.company_members m
        WHERE m.tenant = p.tenant AND m.company_id = p.company_id AND m.role IN ('borrower_admin', 'lender_admin'))
GROUP BY p.tenant ORDER BY p.tenant COLLATE "C" LIMIT :limit::integer
