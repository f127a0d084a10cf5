INSERT INTO timebell_notify.provider_waits (provider, notification_id, tenant, lane, asked_at)
SELECT :provider::text, asked.id, asked.tenant, asked.lane, coalesce(:now::timestamptz, clock_timestamp())
FROM unnest(:ids::uuid[], :tenants::text[], :lanes::smallint[]) AS asked(id, tenant, lane)
ON CONFLICT (provider, notification_id) DO NOTHING
