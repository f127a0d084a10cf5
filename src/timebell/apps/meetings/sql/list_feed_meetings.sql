-- The meetings of a person that take place, or did since an instant. Of a lineage there is one at most.
SELECT m.id, m.root_id, m.sequence, m.title, m.description, m.location, m.accepted_start, m.accepted_end, m.updated_at
FROM meetings.meeting_participants p
JOIN meetings.meeting_requests m ON m.tenant = p.tenant AND m.id = p.meeting_id
WHERE p.tenant = :tenant::text AND p.recipient_id = :recipient_id::uuid AND m.status IN ('accepted', 'completed')
    AND m.accepted_end > :since::timestamptz
ORDER BY m.accepted_start, m.id LIMIT :limit::integer
