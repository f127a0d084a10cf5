-- All companies, the oldest first.
SELECT id, name, type, payment_customer, payment_method, payment_account, created_at, updated_at
FROM marketplace.companies
WHERE tenant = :tenant::text AND id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY id LIMIT :limit::integer + 1
