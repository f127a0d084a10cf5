-- A report that was not applied yet. Whoever applies it has it.
SELECT e.payment_id, e.report::text AS report FROM marketplace.payment_events e
WHERE e.tenant = :tenant::text AND e.provider = :provider::text AND e.provider_event_id = :provider_event_id::text
    AND e.applied_at IS NULL
FOR UPDATE
