-- Who proposed the first meeting of a lineage; to calendars that is whose meeting it is, whoever reschedules it.
SELECT requester_id FROM meetings.meeting_requests WHERE tenant = :tenant::text AND id = :root_id::uuid
