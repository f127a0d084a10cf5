-- Addresses that a provider found to be no more. The first to find out is remembered.
UPDATE timebell_notify.addresses a
SET gone_at = coalesce(:now::timestamptz, now())
FROM (SELECT g.tenant, g.id FROM timebell_notify.addresses g
    JOIN unnest(:tenants::text[], :ids::uuid[]) AS n(tenant, id) ON g.tenant = n.tenant AND g.id = n.id
    WHERE g.gone_at IS NULL ORDER BY g.tenant, g.id FOR UPDATE OF g) gone
WHERE a.tenant = gone.tenant AND a.id = gone.id AND a.gone_at IS NULL
