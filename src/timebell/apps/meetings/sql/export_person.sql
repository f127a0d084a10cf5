-- Everything that is kept about a person, in the order of the ids; what a calendar's address is worth is a secret.
SELECT kept.id, kept.line::text AS line
FROM (
    SELECT m.id, to_jsonb(m) || jsonb_build_object('is', 'meeting', 'added_at', p.added_at, 'events', (
        SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY e.created_at, e.id), '[]') FROM meetings.meeting_status_events e
        WHERE e.tenant = m.tenant AND e.meeting_id = m.id AND e.actor = 'recipient:' || p.recipient_id)) AS line
    FROM meetings.meeting_participants p
    JOIN meetings.meeting_requests m ON m.tenant = p.tenant AND m.id = p.meeting_id
    WHERE p.tenant = :tenant::text AND p.recipient_id = :person::uuid
    UNION ALL
    SELECT b.id, to_jsonb(b) || '{"is": "availability"}' FROM meetings.meeting_availability_blocks b
    WHERE b.tenant = :tenant::text AND b.user_id = :person::uuid
    UNION ALL
    SELECT i.id, to_jsonb(i) - 'url' || '{"is": "calendar_import"}' FROM meetings.calendar_imports i
    WHERE i.tenant = :tenant::text AND i.user_id = :person::uuid
) kept
WHERE kept.id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY kept.id LIMIT :limit::integer + 1
