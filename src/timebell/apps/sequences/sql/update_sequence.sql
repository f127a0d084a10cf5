UPDATE sequences.sequences
SET name = :name::text, trigger_event = :trigger_event::text, subtype = :subtype::text, is_active = :is_active::boolean,
    version = :version::integer, revision = revision + 1, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
