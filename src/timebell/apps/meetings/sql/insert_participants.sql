INSERT INTO meetings.meeting_participants (tenant, meeting_id, recipient_id, added_at)
SELECT :tenant::text, :meeting_id::uuid, recipient_id, coalesce(:now::timestamptz, now())
FROM unnest(:recipient_ids::uuid[]) AS r(recipient_id)
ON CONFLICT DO NOTHING
