SELECT count(DISTINCT e.subject) AS count FROM sequences.enrolments e
WHERE e.tenant = :tenant::text AND e.sequence_id = :sequence_id::uuid AND e.ended_reason IS NULL
    AND (:version::integer IS NULL OR e.version < :version::integer)
