-- Which jobs remind of the end of a shift.
UPDATE marketplace.time_log s
SET reminder_5m_job_id = :reminder_5m_job_id::uuid, reminder_30m_job_id = :reminder_30m_job_id::uuid
WHERE s.tenant = :tenant::text AND s.id = :id::uuid
