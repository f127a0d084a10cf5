UPDATE marketplace.simulator_movements m SET state = :state::text
WHERE m.tenant = :tenant::text AND m.ref = :ref::text AND m.call = 'charge'
