-- What is null stays as it is.
UPDATE marketplace.companies
SET name = coalesce(:name::text, name), payment_customer = coalesce(:payment_customer::text, payment_customer),
    payment_method = coalesce(:payment_method::text, payment_method),
    payment_account = coalesce(:payment_account::text, payment_account), updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
