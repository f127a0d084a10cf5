-- Of whom some meetings have taken or hold time.
SELECT DISTINCT recipient_id FROM meetings.busy
WHERE tenant = :tenant::text AND meeting_id = ANY (:meeting_ids::uuid[])
