-- What was changed about single occurrences of some schedules.
SELECT schedule_id, original_local, fold, new_local, payload::text AS payload
FROM timebell.occurrence_overrides
WHERE schedule_id = ANY(:schedule_ids::uuid[])
ORDER BY schedule_id, original_local, fold
