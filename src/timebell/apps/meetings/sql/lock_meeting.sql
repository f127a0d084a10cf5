-- Of those who change one meeting at once, one goes on; it reads it by another statement, and sees what was written before.
SELECT id FROM meetings.meeting_requests WHERE tenant = :tenant::text AND id = :id::uuid FOR UPDATE
