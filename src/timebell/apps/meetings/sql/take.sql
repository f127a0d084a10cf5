-- A row for each person, or none for one who is taken then: the constraint decides, and whoever asked counts.
INSERT INTO meetings.busy (tenant, number, recipient_id, during, kind, meeting_id, hold_id, held_by, expires_at)
SELECT p.tenant, p.number, p.recipient_id, tstzrange(:start_at::timestamptz, :end_at::timestamptz), :kind::text,
    :meeting_id::uuid, :hold_id::uuid, :held_by::uuid, :expires_at::timestamptz
FROM meetings.people p
WHERE p.tenant = :tenant::text AND p.recipient_id = ANY (:people::uuid[])
ORDER BY p.recipient_id
ON CONFLICT DO NOTHING
RETURNING recipient_id
