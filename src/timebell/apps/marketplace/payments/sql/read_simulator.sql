-- What the simulator was told to do.
SELECT s.outcome, s.webhook_after, s.faults::text AS faults
FROM marketplace.simulator_settings s WHERE s.tenant = :tenant::text
