INSERT INTO meetings.meeting_requests (tenant, id, requester_id, title, description, location, timezone, proposed_slots,
    parent_meeting_id, root_id, sequence, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :requester_id::uuid, :title::text, :description::text, :location::text,
    :timezone::text, :proposed_slots::jsonb, :parent_meeting_id::uuid, :root_id::uuid, :sequence::integer,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
