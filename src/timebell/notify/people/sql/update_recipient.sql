-- New terms of a recipient that is locked; no row comes back where the external id is another's.
UPDATE timebell_notify.recipients r
SET external_id = :external_id::text, name = :name::text, language = :language::text, timezone = :timezone::text,
    channel_preference = :channel_preference::text, whatsapp_opt_in = :whatsapp_opt_in::boolean,
    quiet_hours = :quiet_hours::text::jsonb, revision = r.revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE r.tenant = :tenant::text AND r.id = :id::uuid AND NOT EXISTS (
    SELECT FROM timebell_notify.recipients other
    WHERE other.tenant = :tenant::text AND other.external_id = :external_id::text AND other.id <> :id::uuid)
RETURNING r.id
