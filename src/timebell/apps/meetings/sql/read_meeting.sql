SELECT m.tenant, m.id, m.requester_id, m.title, m.description, m.location, m.timezone,
    m.proposed_slots::text AS proposed_slots, m.accepted_start, m.accepted_end, m.status, m.parent_meeting_id, m.root_id,
    m.sequence, m.revision, m.created_at, m.updated_at,
    ARRAY(SELECT p.recipient_id FROM meetings.meeting_participants p
        WHERE p.tenant = m.tenant AND p.meeting_id = m.id ORDER BY p.recipient_id) AS participants
FROM meetings.meeting_requests m
WHERE m.tenant = :tenant::text AND m.id = :id::uuid
