INSERT INTO sequences.booking_settings (tenant, checks_in_at_start, completes_at_end)
VALUES (:tenant::text, :checks_in_at_start::boolean, :completes_at_end::boolean)
ON CONFLICT (tenant) DO UPDATE
SET checks_in_at_start = excluded.checks_in_at_start, completes_at_end = excluded.completes_at_end
