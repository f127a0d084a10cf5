SELECT s.subject, s.id, s.status, s.subtype, s.starts_at, s.ends_at, s.timezone, s.facts::text AS facts, s.dates_at,
    s.revision, s.created_at, s.updated_at, p.recipient_ids, p.roles
FROM sequences.subjects s
CROSS JOIN LATERAL (
    SELECT array_agg(p.recipient_id ORDER BY p.ordinal) AS recipient_ids, array_agg(p.role ORDER BY p.ordinal) AS roles
    FROM sequences.subject_people p WHERE p.tenant = s.tenant AND p.subject = s.subject
) p
WHERE s.tenant = :tenant::text AND s.subject = ANY (:subjects::text[])
ORDER BY s.subject
