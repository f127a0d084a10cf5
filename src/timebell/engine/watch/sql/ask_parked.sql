-- The schedules that could not be planned, in the order of their ids.
SELECT s.id, s.tenant, s.state_reason AS reason
FROM timebell.schedules s
WHERE s.state = 'parked' AND s.id > :after::uuid
ORDER BY s.id LIMIT :limit::integer
