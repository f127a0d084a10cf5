-- The roles of one person in some companies.
SELECT company_id, role FROM marketplace.company_members
WHERE tenant = :tenant::text AND recipient_id = :person::uuid AND company_id = ANY (:company_ids::uuid[])
