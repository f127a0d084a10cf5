-- A new recipient; no row comes back where the tenant knows its external id already. What it does not say about itself
-- is what the tenant decided for everybody.
INSERT INTO timebell_notify.recipients (tenant, id, external_id, name, language, timezone, channel_preference,
    whatsapp_opt_in, quiet_hours, created_at, updated_at)
SELECT :tenant::text, :id::uuid, :external_id::text, :name::text,
    coalesce(:language::text, (SELECT policy ->> 'default_language' FROM timebell_notify.policies
        WHERE tenant = :tenant::text), 'en'),
    coalesce(:timezone::text, (SELECT policy ->> 'default_timezone' FROM timebell_notify.policies
        WHERE tenant = :tenant::text), 'UTC'),
    :channel_preference::text, :whatsapp_opt_in::boolean, :quiet_hours::text::jsonb,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
ON CONFLICT (tenant, external_id) WHERE external_id IS NOT NULL DO NOTHING
RETURNING id
