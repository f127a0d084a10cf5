SELECT id, name, type, payment_customer, payment_method, payment_account, created_at, updated_at
FROM marketplace.companies WHERE tenant = :tenant::text AND id = :id::uuid
