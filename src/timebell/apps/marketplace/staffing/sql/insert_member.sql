INSERT INTO marketplace.company_members (tenant, company_id, recipient_id, role, created_at)
VALUES (:tenant::text, :company_id::uuid, :recipient_id::uuid, :role::text, coalesce(:now::timestamptz, now()))
ON CONFLICT DO NOTHING
RETURNING recipient_id
