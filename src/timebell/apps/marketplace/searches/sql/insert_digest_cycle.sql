INSERT INTO marketplace.digest_cycles (tenant, timezone, schedule_id, created_at)
VALUES (:tenant::text, :timezone::text, :schedule_id::uuid, coalesce(:now::timestamptz, now()))
