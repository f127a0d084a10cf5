SELECT v.sequence_id, v.version, v.conditions::text AS conditions, v.steps::text AS steps
FROM unnest(:sequence_ids::uuid[], :versions::integer[]) AS w(sequence_id, version)
JOIN sequences.sequence_versions v
    ON v.tenant = :tenant::text AND v.sequence_id = w.sequence_id AND v.version = w.version
