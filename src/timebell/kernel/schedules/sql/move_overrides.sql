-- What was changed about later occurrences goes with them when a schedule is split, by as much as they are shifted.
UPDATE timebell.occurrence_overrides
SET schedule_id = :new_id::uuid, original_local = original_local + :shift::interval,
    new_local = new_local + :shift::interval
WHERE schedule_id = :schedule_id::uuid AND original_local >= :from_local::timestamp
