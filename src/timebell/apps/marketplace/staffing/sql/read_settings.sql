SELECT payout_trigger, max_extensions, penalty_policy::text AS penalty_policy, hold_until_disputes_resolved
FROM marketplace.marketplace_settings WHERE tenant = :tenant::text
