INSERT INTO marketplace.token_cleanings (tenant, schedule_id, created_at)
VALUES (:tenant::text, :schedule_id::uuid, coalesce(:now::timestamptz, now()))
