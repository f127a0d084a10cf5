-- The meetings of a person of which something may still come, locked one after the other.
SELECT m.id FROM meetings.meeting_participants p
JOIN meetings.meeting_requests m ON m.tenant = p.tenant AND m.id = p.meeting_id
WHERE p.tenant = :tenant::text AND p.recipient_id = :person::uuid AND m.status IN ('pending', 'accepted')
ORDER BY m.id FOR UPDATE OF m
