INSERT INTO meetings.meeting_status_events (tenant, id, meeting_id, from_status, to_status, reason, actor, created_at)
VALUES (:tenant::text, :id::uuid, :meeting_id::uuid, :from_status::text, :to_status::text, :reason::text, :actor::text,
    coalesce(:now::timestamptz, now()))
