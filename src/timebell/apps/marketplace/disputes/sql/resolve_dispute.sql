UPDATE marketplace.disputes
SET status = :status::text, settlement = :settlement::jsonb, resolved_at = coalesce(:now::timestamptz, now()),
    resolved_by = :resolved_by::text, updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
