-- The bookings that somebody has a part in, the oldest first: of the companies that they are a member of, and those that they
-- work in or supervise. A worker sees no bookings of colleagues. Each part is read no further than a page goes.
WITH companies AS MATERIALIZED (
    SELECT DISTINCT m.company_id FROM marketplace.company_members m
    WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid AND m.role <> 'worker'
), asked AS MATERIALIZED (
    SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000') AS after
), parts AS (
    SELECT f.id FROM companies c, asked, LATERAL (SELECT b.id FROM marketplace.staffing_bookings b
        WHERE b.tenant = :tenant::text AND b.borrower_company_id = c.company_id AND b.id > asked.after
            AND (:status::text IS NULL OR b.status = :status::text)
            AND (:project_id::uuid IS NULL OR b.project_id = :project_id::uuid)
            AND (:worker_id::uuid IS NULL OR b.worker_id = :worker_id::uuid)
        ORDER BY b.id LIMIT :limit::integer + 1) f
    UNION SELECT f.id FROM companies c, asked, LATERAL (SELECT b.id FROM marketplace.staffing_bookings b
        WHERE b.tenant = :tenant::text AND b.lender_company_id = c.company_id AND b.id > asked.after
            AND (:status::text IS NULL OR b.status = :status::text)
            AND (:project_id::uuid IS NULL OR b.project_id = :project_id::uuid)
            AND (:worker_id::uuid IS NULL OR b.worker_id = :worker_id::uuid)
        ORDER BY b.id LIMIT :limit::integer + 1) f
    UNION SELECT f.id FROM marketplace.workers own, asked, LATERAL (SELECT b.id FROM marketplace.staffing_bookings b
        WHERE b.tenant = :tenant::text AND b.worker_id = own.id AND b.id > asked.after
            AND (:status::text IS NULL OR b.status = :status::text)
            AND (:project_id::uuid IS NULL OR b.project_id = :project_id::uuid)
            AND (:worker_id::uuid IS NULL OR b.worker_id = :worker_id::uuid)
        ORDER BY b.id LIMIT :limit::integer + 1) f
        WHERE own.tenant = :tenant::text AND own.recipient_id = :person::uuid
    UNION SELECT f.id FROM asked, LATERAL (SELECT b.id FROM marketplace.staffing_bookings b
        WHERE b.tenant = :tenant::text AND b.supervisor_id = :person::uuid AND b.id > asked.after
            AND (:status::text IS NULL OR b.status = :status::text)
            AND (:project_id::uuid IS NULL OR b.project_id = :project_id::uuid)
            AND (:worker_id::uuid IS NULL OR b.worker_id = :worker_id::uuid)
        ORDER BY b.id LIMIT :limit::integer + 1) f
), page AS MATERIALIZED (
    SELECT id FROM parts ORDER BY id LIMIT :limit::integer + 1
)
SELECT b.tenant, b.id, b.project_id, b.borrower_company_id, b.lender_company_id, b.worker_id,
    w.recipient_id AS worker_recipient_id, b.supervisor_id, b.payment_type, b.currency, b.timezone, b.status, b.start_date,
    b.end_date, b.funded_period_end, b.clock_in_hold, b.scheduled_end_time, b.release_reason, b.rate, b.revision,
    b.created_at, b.updated_at
FROM page
JOIN marketplace.staffing_bookings b ON b.tenant = :tenant::text AND b.id = page.id
JOIN marketplace.workers w ON w.tenant = b.tenant AND w.id = b.worker_id
ORDER BY b.id
