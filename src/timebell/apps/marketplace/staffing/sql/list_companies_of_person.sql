-- The companies that somebody is a member of, the oldest first.
SELECT c.id, c.name, c.type, c.payment_customer, c.payment_method, c.payment_account, c.created_at, c.updated_at
FROM (SELECT DISTINCT m.company_id FROM marketplace.company_members m
    WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid
        AND m.company_id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY m.company_id LIMIT :limit::integer + 1) own
JOIN marketplace.companies c ON c.tenant = :tenant::text AND c.id = own.company_id
ORDER BY c.id
