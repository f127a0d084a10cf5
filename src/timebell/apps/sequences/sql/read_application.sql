SELECT a.id, a.sequence_id, a.version, a.enrolled_count, a.done_count, a.counts::text AS counts, a.actor, a.created_at,
    a.finished_at
FROM sequences.applications a
WHERE a.tenant = :tenant::text AND a.id = :id::uuid
