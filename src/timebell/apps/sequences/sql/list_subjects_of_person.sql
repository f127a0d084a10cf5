-- The subjects that concern a person, in the order of their names.
SELECT p.subject FROM sequences.subject_people p
WHERE p.tenant = :tenant::text AND p.recipient_id = :person::uuid AND p.subject > :after::text
ORDER BY p.subject LIMIT :limit::integer
