SELECT id, recipient_id, company_id, state, trade, zip, skills, hourly_rate, number, created_at, updated_at
FROM marketplace.workers WHERE tenant = :tenant::text AND id = :id::uuid
