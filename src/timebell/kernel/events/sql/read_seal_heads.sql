-- The last seal of each of these tenants.
SELECT t.tenant, s.number, s.hash
FROM unnest(:tenants::text[]) AS t(tenant)
CROSS JOIN LATERAL (
    SELECT s.number, s.hash FROM timebell.event_seals s WHERE s.tenant = t.tenant ORDER BY s.number DESC LIMIT 1
) s
