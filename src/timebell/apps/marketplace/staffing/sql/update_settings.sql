-- What is null stays as it is, so that of two who change different things at once neither undoes the other.
UPDATE marketplace.marketplace_settings
SET payout_trigger = coalesce(:payout_trigger::text, payout_trigger),
    max_extensions = coalesce(:max_extensions::integer, max_extensions),
    penalty_policy = penalty_policy || :penalty_policy::jsonb,
    hold_until_disputes_resolved = coalesce(:hold_until_disputes_resolved::boolean, hold_until_disputes_resolved),
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text
RETURNING payout_trigger, max_extensions, penalty_policy::text AS penalty_policy, hold_until_disputes_resolved
