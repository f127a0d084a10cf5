-- Tenants with insurances that have ended and are active all the same, although the daily run should have seen them: so many
-- seconds are left to it.
WITH run AS MATERIALIZED (
    SELECT date_trunc('day', coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second',
        'UTC') AS at
)
SELECT p.tenant, count(*) AS policy_count, min(p.expiration_date) AS oldest
FROM marketplace.insurance_policies p
WHERE p.is_active AND p.expiration_date < (SELECT (run.at AT TIME ZONE 'UTC')::date FROM run)
    AND p.updated_at < (SELECT run.at FROM run) AND p.tenant COLLATE "C" > (:after_tenant::text) COLLATE "C"
GROUP BY p.tenant ORDER BY p.tenant COLLATE "C" LIMIT :limit::integer
