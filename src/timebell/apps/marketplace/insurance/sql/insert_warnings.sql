-- Whom some insurances warn who were not warned of that date yet: the admins of the company, and those of the other side of
-- each booking that goes on.
WITH policies AS MATERIALIZED (
    SELECT p.id, p.company_id, p.expiration_date FROM marketplace.insurance_policies p
    WHERE p.tenant = :tenant::text AND p.id = ANY (:ids::uuid[]) AND p.is_active
), sides AS (
    SELECT p.id, p.expiration_date, p.company_id FROM policies p
    UNION SELECT p.id, p.expiration_date, b.lender_company_id FROM policies p
    JOIN marketplace.staffing_bookings b ON b.tenant = :tenant::text AND b.borrower_company_id = p.company_id
    WHERE b.status <> 'Cancelled' AND b.end_date >= :today::date
    UNION SELECT p.id, p.expiration_date, b.borrower_company_id FROM policies p
    JOIN marketplace.staffing_bookings b ON b.tenant = :tenant::text AND b.lender_company_id = p.company_id
    WHERE b.status <> 'Cancelled' AND b.end_date >= :today::date
)
INSERT INTO marketplace.insurance_warnings (tenant, policy_id, expiration_date, threshold, recipient_id, channel, sent_at)
SELECT DISTINCT :tenant::text, s.id, s.expiration_date, :threshold::integer, m.recipient_id, told.channel,
    coalesce(:now::timestamptz, now())
FROM sides s
JOIN marketplace.company_members m ON m.tenant = :tenant::text AND m.company_id = s.company_id
    AND m.role IN ('borrower_admin', 'lender_admin')
CROSS JOIN unnest(:channels::text[]) AS told(channel)
ON CONFLICT DO NOTHING
RETURNING policy_id, recipient_id, channel
