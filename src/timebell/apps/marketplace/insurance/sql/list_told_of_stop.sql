-- Whom the stop of a policy concerns, each once with the bookings by which it does, some people at a time: worker, supervisor,
-- and admins and managers of both sides. Of many bookings the first are named,
-- and those that were cancelled since concern nobody.
WITH stopped AS MATERIALIZED (
    SELECT b.id, b.worker_id, b.supervisor_id, b.borrower_company_id, b.lender_company_id
    FROM marketplace.insurance_stops s
    JOIN marketplace.staffing_bookings b ON b.tenant = s.tenant AND b.id = s.booking_id
    WHERE s.tenant = :tenant::text AND s.policy_id = :policy_id::uuid AND s.ended_work AND b.status <> 'Cancelled'
), people AS (
    SELECT w.recipient_id, stopped.id FROM stopped
    JOIN marketplace.workers w ON w.tenant = :tenant::text AND w.id = stopped.worker_id
    UNION SELECT stopped.supervisor_id, stopped.id FROM stopped
    UNION SELECT m.recipient_id, stopped.id FROM stopped
    JOIN marketplace.company_members m ON m.tenant = :tenant::text AND m.company_id = stopped.borrower_company_id
        AND m.role IN ('borrower_admin', 'borrower_manager')
    UNION SELECT m.recipient_id, stopped.id FROM stopped
    JOIN marketplace.company_members m ON m.tenant = :tenant::text AND m.company_id = stopped.lender_company_id
        AND m.role IN ('lender_admin', 'lender_manager')
)
SELECT p.recipient_id, (array_agg(p.id ORDER BY p.id))[1:(:shown_max::integer)] AS booking_ids, count(*) AS booking_count
FROM people p
WHERE p.recipient_id > :after::uuid
GROUP BY p.recipient_id ORDER BY p.recipient_id LIMIT :limit::integer
