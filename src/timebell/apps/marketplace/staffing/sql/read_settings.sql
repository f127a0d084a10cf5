SELECT payout_trigger, max_extensions, hold_until_disputes_resolved
FROM marketplace.marketplace_settings WHERE tenant = :tenant::text
