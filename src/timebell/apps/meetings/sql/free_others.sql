-- What a meeting took of people who are not among these any more, and the holds of those people. Says who has a row still.
WITH freed AS (
    DELETE FROM meetings.busy
    WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid
        AND (recipient_id <> ALL (:people::uuid[]) OR held_by <> ALL (:people::uuid[]))
)
SELECT DISTINCT recipient_id FROM meetings.busy
WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid AND kind = 'meeting'
