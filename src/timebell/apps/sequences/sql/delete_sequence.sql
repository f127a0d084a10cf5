-- It stays, since messages point at it; nobody enters it any more, and lists do not show it.
UPDATE sequences.sequences
SET is_active = false, deleted_at = coalesce(:now::timestamptz, now()), revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
