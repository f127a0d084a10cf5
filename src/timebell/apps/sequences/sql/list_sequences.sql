-- The sequences of a tenant in the order of their making.
SELECT s.id, s.name, s.trigger_event, s.subtype, s.is_active, s.version, s.revision, s.created_at, s.updated_at, s.deleted_at,
    v.conditions::text AS conditions, v.steps::text AS steps
FROM sequences.sequences s
JOIN sequences.sequence_versions v ON v.tenant = s.tenant AND v.sequence_id = s.id AND v.version = s.version
WHERE s.tenant = :tenant::text AND s.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND s.deleted_at IS NULL AND (:trigger_event::text IS NULL OR s.trigger_event = :trigger_event::text)
ORDER BY s.id LIMIT :limit::integer + 1
