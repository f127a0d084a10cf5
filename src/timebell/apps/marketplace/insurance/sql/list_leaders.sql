-- Admins and managers of a company.
SELECT DISTINCT m.recipient_id FROM marketplace.company_members m
WHERE m.tenant = :tenant::text AND m.company_id = :company_id::uuid
    AND m.role IN ('borrower_admin', 'borrower_manager', 'lender_admin', 'lender_manager')
ORDER BY m.recipient_id LIMIT :limit::integer
