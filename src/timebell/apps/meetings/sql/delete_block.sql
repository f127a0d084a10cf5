DELETE FROM meetings.meeting_availability_blocks
WHERE tenant = :tenant::text AND user_id = :user_id::uuid AND id = :id::uuid
RETURNING id
