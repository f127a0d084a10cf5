SELECT c.tenant, c.timezone, c.payment_schedule_id, c.warning_schedule_id, c.cutoff_schedule_id, c.created_at
FROM marketplace.weekly_cycles c
WHERE c.tenant = :tenant::text AND c.timezone = :timezone::text
