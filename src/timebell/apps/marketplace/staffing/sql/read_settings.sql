SELECT payout_trigger, max_extensions FROM marketplace.marketplace_settings WHERE tenant = :tenant::text
