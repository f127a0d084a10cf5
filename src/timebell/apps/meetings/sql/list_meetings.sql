-- The meetings of a person, the oldest first. Within a span is one whose slot is, or any that is proposed for it.
SELECT m.tenant, m.id, m.requester_id, m.title, m.description, m.location, m.timezone,
    m.proposed_slots::text AS proposed_slots, m.accepted_start, m.accepted_end, m.status, m.parent_meeting_id, m.root_id,
    m.sequence, m.revision, m.created_at, m.updated_at,
    ARRAY(SELECT p.recipient_id FROM meetings.meeting_participants p
        WHERE p.tenant = m.tenant AND p.meeting_id = m.id ORDER BY p.recipient_id) AS participants
FROM meetings.meeting_participants own
JOIN meetings.meeting_requests m ON m.tenant = own.tenant AND m.id = own.meeting_id
WHERE own.tenant = :tenant::text AND own.recipient_id = :person::uuid
    AND own.meeting_id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND (:status::text IS NULL OR m.status = :status::text)
    AND (:other::uuid IS NULL OR EXISTS (SELECT FROM meetings.meeting_participants o
        WHERE o.tenant = m.tenant AND o.meeting_id = m.id AND o.recipient_id = :other::uuid))
    AND (:since::timestamptz IS NULL AND :before::timestamptz IS NULL OR EXISTS (
        SELECT FROM (SELECT m.accepted_start AS start, m.accepted_end AS "end" WHERE m.accepted_start IS NOT NULL
            UNION ALL SELECT s.start, s."end"
            FROM jsonb_to_recordset(m.proposed_slots) AS s(start timestamptz, "end" timestamptz)
            WHERE m.accepted_start IS NULL) slot
        WHERE slot."end" > coalesce(:since::timestamptz, '-infinity')
            AND slot.start < coalesce(:before::timestamptz, 'infinity')))
ORDER BY own.meeting_id LIMIT :limit::integer + 1
