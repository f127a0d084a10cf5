-- All that a meeting took and all holds on it, or only the hold of one person.
DELETE FROM meetings.busy
WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid
    AND (:held_by::uuid IS NULL OR held_by = :held_by::uuid)
RETURNING hold_id
