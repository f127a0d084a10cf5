-- As they happened, whatever clocks say: a meeting leaves pending, and after that accepted, each at most once.
SELECT id, meeting_id, from_status, to_status, reason, actor, created_at
FROM meetings.meeting_status_events
WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid
    AND (:after::uuid IS NULL OR id <> :after::uuid AND from_status <> 'pending')
ORDER BY from_status <> 'pending' LIMIT :limit::integer + 1
