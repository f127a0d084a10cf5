INSERT INTO marketplace.companies (tenant, id, name, type, payment_customer, payment_method, payment_account, created_at,
    updated_at)
VALUES (:tenant::text, :id::uuid, :name::text, :type::text, :payment_customer::text, :payment_method::text,
    :payment_account::text, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
