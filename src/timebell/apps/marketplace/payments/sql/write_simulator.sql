INSERT INTO marketplace.simulator_settings (tenant, outcome, webhook_after, faults, updated_at)
VALUES (:tenant::text, :outcome::text, :webhook_after::interval, :faults::text::jsonb, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO UPDATE SET outcome = excluded.outcome, webhook_after = excluded.webhook_after,
    faults = excluded.faults, updated_at = excluded.updated_at
