-- Forgets who a recipient is. Its id stays, so that what points at it can still be read.
WITH addresses AS (
    DELETE FROM timebell_notify.addresses WHERE tenant = :tenant::text AND recipient_id = :id::uuid
), opt_outs AS (
    DELETE FROM timebell_notify.opt_outs WHERE tenant = :tenant::text AND recipient_id = :id::uuid
), recent_sends AS (
    DELETE FROM timebell_notify.recent_sends WHERE tenant = :tenant::text AND recipient_id = :id::uuid
)
UPDATE timebell_notify.recipients r
SET external_id = NULL, name = '', language = 'en', timezone = 'UTC', channel_preference = NULL,
    whatsapp_opt_in = false, quiet_hours = NULL, revision = r.revision + 1,
    updated_at = coalesce(:now::timestamptz, now()),
    erased_at = coalesce(r.erased_at, :now::timestamptz, now())
WHERE r.tenant = :tenant::text AND r.id = :id::uuid
