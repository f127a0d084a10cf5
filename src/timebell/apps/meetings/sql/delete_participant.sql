DELETE FROM meetings.meeting_participants
WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid AND recipient_id = :recipient_id::uuid
