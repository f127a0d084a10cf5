INSERT INTO marketplace.insurance_monitors (tenant, schedule_id, created_at)
VALUES (:tenant::text, :schedule_id::uuid, coalesce(:now::timestamptz, now()))
