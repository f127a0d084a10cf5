INSERT INTO marketplace.weekly_cycles
    (tenant, timezone, payment_schedule_id, warning_schedule_id, cutoff_schedule_id, created_at)
VALUES (:tenant::text, :timezone::text, :payment_schedule_id::uuid, :warning_schedule_id::uuid, :cutoff_schedule_id::uuid,
    coalesce(:now::timestamptz, now()))
