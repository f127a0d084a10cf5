INSERT INTO marketplace.insurance_stops (tenant, booking_id, company_id, type, policy_id, ended_work, stopped_at)
VALUES (:tenant::text, :booking_id::uuid, :company_id::uuid, :type::text, :policy_id::uuid, :ended_work::boolean,
    coalesce(:now::timestamptz, now()))
ON CONFLICT DO NOTHING
