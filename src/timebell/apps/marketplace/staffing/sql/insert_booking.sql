INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, lender_company_id, worker_id,
    supervisor_id, payment_type, currency, timezone, start_date, end_date, funded_period_end, scheduled_end_time, rate,
    created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :project_id::uuid, :borrower_company_id::uuid, :lender_company_id::uuid,
    :worker_id::uuid, :supervisor_id::uuid, :payment_type::text, :currency::text, :timezone::text, :start_date::date,
    :end_date::date, :funded_period_end::timestamptz, :scheduled_end_time::time, :rate::bigint,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
