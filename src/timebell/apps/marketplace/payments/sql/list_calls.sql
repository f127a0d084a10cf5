-- Every call of the simulator, in the order of their coming.
SELECT c.id, c.at, c.call, c.key, c.amount, c.currency, c.booking_id, c.outcome
FROM marketplace.simulator_calls c
WHERE c.tenant = :tenant::text
    AND (c.at, c.id) > (coalesce(:after_at::timestamptz, '-infinity'),
        coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY c.at, c.id LIMIT :limit::integer + 1
