INSERT INTO marketplace.marketplace_settings (tenant, payout_trigger, max_extensions, updated_at)
VALUES (:tenant::text, :payout_trigger::text, :max_extensions::integer, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO NOTHING
