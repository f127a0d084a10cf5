-- Those of some subjects that are in a sequence with an older version go on with this one.
UPDATE sequences.enrolments SET version = :version::integer
WHERE tenant = :tenant::text AND subject = ANY (:subjects::text[]) AND sequence_id = :sequence_id::uuid
    AND ended_reason IS NULL AND version < :version::integer
