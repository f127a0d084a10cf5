-- A person who is erased took part in nothing. What a meeting said stays with those who are left of it; of whom none is, it
-- goes.
WITH gone AS (
    DELETE FROM meetings.meeting_participants WHERE tenant = :tenant::text AND recipient_id = :person::uuid
    RETURNING meeting_id
)
UPDATE meetings.meeting_requests m
SET title = '', description = '', location = NULL, updated_at = coalesce(:now::timestamptz, now())
FROM gone g
WHERE m.tenant = :tenant::text AND m.id = g.meeting_id AND NOT EXISTS (
    SELECT FROM meetings.meeting_participants p
    WHERE p.tenant = m.tenant AND p.meeting_id = m.id AND p.recipient_id <> :person::uuid)
