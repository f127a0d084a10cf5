-- A transition. That the meeting is still in the state that was decided about, the lock has seen to; this sees to it again.
UPDATE meetings.meeting_requests
SET status = :to_status::text, accepted_start = coalesce(:accepted_start::timestamptz, accepted_start),
    accepted_end = coalesce(:accepted_end::timestamptz, accepted_end), sequence = sequence + 1, revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND status = :from_status::text
RETURNING id
