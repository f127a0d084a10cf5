-- What was applied to those in a sequence, the first first.
SELECT a.id, a.sequence_id, a.version, a.enrolled_count, a.done_count, a.counts::text AS counts, a.actor, a.created_at,
    a.finished_at
FROM sequences.applications a
WHERE a.tenant = :tenant::text AND a.sequence_id = :sequence_id::uuid
    AND a.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY a.id LIMIT :limit::integer + 1
