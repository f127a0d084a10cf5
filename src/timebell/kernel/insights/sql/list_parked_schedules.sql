-- The schedules that could not be planned, the last that was parked first.
SELECT id, tenant, state_reason AS reason, updated_at AS parked_at
FROM timebell.schedules
WHERE state = 'parked'
ORDER BY updated_at DESC, id DESC LIMIT :rows_max::integer
