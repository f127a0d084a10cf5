-- Who has which role in some companies, in the order of their coming.
SELECT company_id, recipient_id, role FROM marketplace.company_members
WHERE tenant = :tenant::text AND company_id = ANY (:company_ids::uuid[])
    AND role IN ('borrower_admin', 'borrower_manager', 'lender_admin', 'lender_manager')
ORDER BY created_at, recipient_id
LIMIT 1000
