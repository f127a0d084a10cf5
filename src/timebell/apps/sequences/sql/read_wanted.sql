-- All that decides whether a message is still wanted, and what it speaks of: its subject, and what its version says.
SELECT m.sequence_id, m.entry, m.step, m.recipient_id, e.ended_reason, e.event_at, v.version, v.conditions::text AS conditions,
    v.steps::text AS steps, s.subject, s.id, s.status, s.subtype, s.starts_at, s.ends_at, s.timezone,
    s.facts::text AS facts, s.dates_at, s.revision, s.created_at, s.updated_at, p.recipient_ids, p.roles
FROM sequences.messages m
JOIN sequences.subjects s ON s.tenant = m.tenant AND s.subject = m.subject
JOIN sequences.enrolments e ON e.tenant = m.tenant AND e.subject = m.subject AND e.sequence_id = m.sequence_id
    AND e.entry = m.entry
JOIN sequences.sequence_versions v ON v.tenant = e.tenant AND v.sequence_id = e.sequence_id AND v.version = e.version
CROSS JOIN LATERAL (
    SELECT array_agg(p.recipient_id ORDER BY p.ordinal) AS recipient_ids, array_agg(p.role ORDER BY p.ordinal) AS roles
    FROM sequences.subject_people p WHERE p.tenant = s.tenant AND p.subject = s.subject
) p
WHERE m.tenant = :tenant::text AND m.id = :id::uuid
