INSERT INTO sequences.applications (tenant, id, sequence_id, version, enrolled_count, actor, created_at)
VALUES (:tenant::text, :id::uuid, :sequence_id::uuid, :version::integer, :enrolled_count::integer, :actor::text,
    coalesce(:now::timestamptz, now()))
