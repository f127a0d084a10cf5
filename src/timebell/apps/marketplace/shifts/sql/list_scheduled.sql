-- Those of a booking that nobody has clocked in to and that begin from an instant on.
SELECT s.tenant, s.id, s.booking_id, s.worker_id, s.shift_date, s.shift_start_time, s.scheduled_start, s.scheduled_end,
    s.end_stated_at, s.clock_in_time, s.draft_end, s.clock_out_time, s.work_start, s.work_end, s.worked_minutes, s.status,
    s.cancel_reason, s.auto_approval_time, s.extensions, s.reminder_5m_job_id, s.reminder_30m_job_id, s.amount,
    s.verified_at, s.verified_by, s.revision, s.created_at, s.updated_at
FROM marketplace.time_log s
WHERE s.tenant = :tenant::text AND s.booking_id = :booking_id::uuid AND s.status = 'Scheduled'
    AND s.scheduled_start >= :since::timestamptz
ORDER BY s.scheduled_start, s.id
