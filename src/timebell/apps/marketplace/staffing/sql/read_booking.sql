SELECT b.tenant, b.id, b.project_id, b.borrower_company_id, b.lender_company_id, b.worker_id,
    w.recipient_id AS worker_recipient_id, b.supervisor_id, b.payment_type, b.currency, b.timezone, b.status, b.start_date,
    b.end_date, b.funded_period_end, b.clock_in_hold, b.scheduled_end_time, b.release_reason, b.rate, b.revision,
    b.created_at, b.updated_at
FROM marketplace.staffing_bookings b
JOIN marketplace.workers w ON w.tenant = b.tenant AND w.id = b.worker_id
WHERE b.tenant = :tenant::text AND b.id = :id::uuid
