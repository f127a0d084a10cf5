-- The companies that somebody is a member of otherwise than as one who is lent.
SELECT DISTINCT company_id FROM marketplace.company_members
WHERE tenant = :tenant::text AND recipient_id = :person::uuid AND role <> 'worker'
ORDER BY company_id LIMIT :limit::integer
