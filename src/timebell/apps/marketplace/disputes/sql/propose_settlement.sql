-- What a side says last is what it proposes.
UPDATE marketplace.disputes
SET proposals = proposals || :proposals::jsonb, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
