INSERT INTO marketplace.insurance_policies (tenant, id, company_id, type, expiration_date, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :company_id::uuid, :type::text, :expiration_date::date,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
