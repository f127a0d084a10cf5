-- Rows that somebody else is about to remove are left to them, so that nobody waits.
DELETE FROM meetings.busy b
USING (
    SELECT tenant, meeting_id, number, during FROM meetings.busy
    WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid AND hold_id = :hold_id::uuid
        AND expires_at <= coalesce(:now::timestamptz, now())
    FOR UPDATE SKIP LOCKED
) AS ended
WHERE b.tenant = ended.tenant AND b.meeting_id = ended.meeting_id AND b.number = ended.number AND b.during = ended.during
