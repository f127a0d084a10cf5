-- The sequences that an event starts, each with the version that whoever enters it now begins with. None is deleted or gets
-- another version before the transaction ends, so that nobody enters what is just being applied or deleted unseen.
SELECT s.id, s.subtype, s.version
FROM sequences.sequences s
WHERE s.tenant = :tenant::text AND s.trigger_event = :event::text AND s.is_active AND s.deleted_at IS NULL
ORDER BY s.id
FOR KEY SHARE OF s
