-- Everything about a shift that changes. That nobody has changed it since it was read, the lock of its booking has seen to;
-- this sees to it again.
UPDATE marketplace.time_log s
SET scheduled_end = :scheduled_end::timestamptz, end_stated_at = :end_stated_at::timestamptz,
    clock_in_time = :clock_in_time::timestamptz, draft_end = :draft_end::timestamptz,
    clock_out_time = :clock_out_time::timestamptz, work_start = :work_start::timestamptz, work_end = :work_end::timestamptz,
    worked_minutes = :worked_minutes::integer, status = :status::text, cancel_reason = :cancel_reason::text,
    auto_approval_time = :auto_approval_time::timestamptz, extensions = :extensions::integer,
    verified_at = :verified_at::timestamptz, verified_by = :verified_by::text, revision = s.revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE s.tenant = :tenant::text AND s.id = :id::uuid AND s.revision = :revision::integer
RETURNING s.tenant, s.id, s.booking_id, s.worker_id, s.shift_date, s.shift_start_time, s.scheduled_start, s.scheduled_end,
    s.end_stated_at, s.clock_in_time, s.draft_end, s.clock_out_time, s.work_start, s.work_end, s.worked_minutes, s.status,
    s.cancel_reason, s.auto_approval_time, s.extensions, s.reminder_5m_job_id, s.reminder_30m_job_id, s.amount,
    s.verified_at, s.verified_by, s.revision, s.created_at, s.updated_at
