DELETE FROM timebell.occurrence_overrides
WHERE schedule_id = :schedule_id::uuid AND original_local = :original_local::timestamp AND fold = :fold::smallint
RETURNING new_local
