-- Faults are used up one at a time.
SELECT s.outcome, s.webhook_after, s.faults::text AS faults
FROM marketplace.simulator_settings s WHERE s.tenant = :tenant::text FOR UPDATE
