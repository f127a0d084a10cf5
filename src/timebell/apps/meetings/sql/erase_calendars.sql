-- All calendars of a person who is erased, here and elsewhere. Answers with those that were read.
WITH gone AS (
    DELETE FROM meetings.calendar_imports WHERE tenant = :tenant::text AND user_id = :user_id::uuid RETURNING id
), freed AS (
    DELETE FROM meetings.imported_busy WHERE tenant = :tenant::text AND recipient_id = :user_id::uuid
), closed AS (
    DELETE FROM meetings.calendar_feeds WHERE tenant = :tenant::text AND recipient_id = :user_id::uuid
)
SELECT id FROM gone
