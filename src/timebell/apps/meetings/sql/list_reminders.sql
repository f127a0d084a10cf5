SELECT id, meeting_id, recipient_id, reminder_type, scheduled_at AS due_at, status, reason, attempts AS failure_count,
    last_attempt_at, next_attempt_at AS run_at, channels, created_at, updated_at
FROM meetings.reminder_jobs
WHERE organization_id = :tenant::text AND meeting_id = :meeting_id::uuid
    AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer + 1
