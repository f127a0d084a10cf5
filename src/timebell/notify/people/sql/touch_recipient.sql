-- Something of a recipient changed that lies in another table.
UPDATE timebell_notify.recipients r
SET revision = r.revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE r.tenant = :tenant::text AND r.id = :id::uuid
