-- Meetings that are on, in the order of their ids.
SELECT id FROM meetings.meeting_requests
WHERE tenant = :tenant::text AND status = 'accepted'
    AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer
