-- Nothing is owed by these any more: all of a subject, but for those of one sequence where it is named.
UPDATE sequences.enrolments SET ended_reason = :reason::text
WHERE tenant = :tenant::text AND subject = ANY (:subjects::text[]) AND ended_reason IS NULL
    AND (:sequence_id::uuid IS NULL OR sequence_id = :sequence_id::uuid)
