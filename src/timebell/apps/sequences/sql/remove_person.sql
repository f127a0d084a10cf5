-- Somebody whom subjects no longer concern; the next in line is the primary then.
DELETE FROM sequences.subject_people
WHERE tenant = :tenant::text AND recipient_id = :person::uuid AND subject = ANY (:subjects::text[])
