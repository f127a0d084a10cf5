INSERT INTO sequences.sequence_versions (tenant, sequence_id, version, conditions, steps, actor, created_at)
VALUES (:tenant::text, :sequence_id::uuid, :version::integer, :conditions::jsonb, :steps::jsonb, :actor::text,
    coalesce(:now::timestamptz, now()))
