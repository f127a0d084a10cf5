INSERT INTO marketplace.projects (tenant, id, company_id, name, timezone, created_at)
VALUES (:tenant::text, :id::uuid, :company_id::uuid, :name::text, :timezone::text, coalesce(:now::timestamptz, now()))
