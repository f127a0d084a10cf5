-- Whom subjects concern, in the place of those before. One of the replaced that nothing is given for concerns nobody.
WITH given AS (
    SELECT * FROM unnest(:subjects::text[], :recipient_ids::uuid[], :roles::text[], :ordinals::smallint[])
        AS g(subject, recipient_id, role, ordinal)
), gone AS (
    DELETE FROM sequences.subject_people p
    WHERE p.tenant = :tenant::text AND p.subject = ANY (:replaced::text[])
        AND NOT EXISTS (SELECT FROM given g WHERE g.subject = p.subject AND g.recipient_id = p.recipient_id)
)
INSERT INTO sequences.subject_people (tenant, subject, recipient_id, role, ordinal)
SELECT :tenant::text, g.subject, g.recipient_id, g.role, g.ordinal FROM given g
ON CONFLICT (tenant, subject, recipient_id) DO UPDATE SET role = excluded.role, ordinal = excluded.ordinal
