-- Subjects that are in a sequence, in the order of their names: those with an older version than one, or all.
SELECT DISTINCT e.subject FROM sequences.enrolments e
WHERE e.tenant = :tenant::text AND e.sequence_id = :sequence_id::uuid AND e.ended_reason IS NULL
    AND e.subject > :after::text AND (:version::integer IS NULL OR e.version < :version::integer)
ORDER BY e.subject LIMIT :limit::integer
