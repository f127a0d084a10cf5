-- Everything that is kept about a person, in the order of the ids: the messages to them, and the subjects that concern them.
SELECT kept.id, kept.line::text AS line
FROM (
    SELECT m.id, jsonb_build_object('is', 'message', 'id', m.id, 'subject', m.subject, 'sequence_id', m.sequence_id, 'step',
        m.step, 'template', m.template, 'channel', m.channel, 'due_at', m.due_at, 'status', m.status, 'reason', m.reason,
        'sent_at', m.sent_at) AS line
    FROM sequences.standings m
    WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid
    UNION ALL
    SELECT s.id, to_jsonb(s) || jsonb_build_object('is', 'subject', 'role', p.role)
    FROM sequences.subject_people p
    JOIN sequences.subjects s ON s.tenant = p.tenant AND s.subject = p.subject
    WHERE p.tenant = :tenant::text AND p.recipient_id = :person::uuid
) kept
WHERE kept.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY kept.id LIMIT :limit::integer + 1
