-- A meeting with those that it came of and that came of it, in that order, as far as a person takes part in them.
SELECT m.tenant, m.id, m.requester_id, m.title, m.description, m.location, m.timezone,
    m.proposed_slots::text AS proposed_slots, m.accepted_start, m.accepted_end, m.status, m.parent_meeting_id, m.root_id,
    m.sequence, m.revision, m.created_at, m.updated_at,
    ARRAY(SELECT p.recipient_id FROM meetings.meeting_participants p
        WHERE p.tenant = m.tenant AND p.meeting_id = m.id ORDER BY p.recipient_id) AS participants
FROM meetings.meeting_requests m
JOIN meetings.meeting_participants own ON own.tenant = m.tenant AND own.meeting_id = m.id
WHERE m.tenant = :tenant::text AND m.root_id = :root_id::uuid AND own.recipient_id = :person::uuid
    AND m.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY m.id LIMIT :limit::integer + 1
