-- The bookings that concern a person in the order of their coming, which is that of their names; all, or those of a status.
SELECT s.subject, s.id, s.status, s.subtype, s.starts_at, s.ends_at, s.timezone, s.facts::text AS facts, s.dates_at,
    s.revision, s.created_at, s.updated_at, p.recipient_ids, p.roles
FROM sequences.subject_people o
JOIN sequences.subjects s ON s.tenant = o.tenant AND s.subject = o.subject
CROSS JOIN LATERAL (
    SELECT array_agg(p.recipient_id ORDER BY p.ordinal) AS recipient_ids, array_agg(p.role ORDER BY p.ordinal) AS roles
    FROM sequences.subject_people p WHERE p.tenant = s.tenant AND p.subject = s.subject
) p
WHERE o.tenant = :tenant::text AND o.recipient_id = :person::uuid
    AND o.subject > (SELECT 'booking:' || coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')::text COLLATE "C")
    AND o.subject < 'booking;' AND (:status::text IS NULL OR s.status = :status::text)
ORDER BY o.subject LIMIT :limit::integer + 1
