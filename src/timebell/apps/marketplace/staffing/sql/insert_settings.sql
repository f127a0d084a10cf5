INSERT INTO marketplace.marketplace_settings
    (tenant, payout_trigger, max_extensions, hold_until_disputes_resolved, updated_at)
VALUES (:tenant::text, :payout_trigger::text, :max_extensions::integer, :hold_until_disputes_resolved::boolean,
    coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO NOTHING
