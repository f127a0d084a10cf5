INSERT INTO meetings.meeting_reschedule_events (tenant, id, original_meeting_id, new_meeting_id, reason, new_slots, actor,
    created_at)
VALUES (:tenant::text, :id::uuid, :original_meeting_id::uuid, :new_meeting_id::uuid, :reason::text, :new_slots::jsonb,
    :actor::text, coalesce(:now::timestamptz, now()))
