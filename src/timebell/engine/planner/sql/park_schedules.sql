-- Schedules that cannot be planned wait for somebody to mend and resume them, and hold nobody up.
UPDATE timebell.schedules s
SET state = 'parked', state_reason = p.reason, plan_at = NULL, updated_at = coalesce(:now::timestamptz, now())
FROM unnest(:ids::uuid[], :reasons::text[]) AS p(id, reason)
WHERE s.id = p.id
