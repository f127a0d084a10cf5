INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, fold, new_local, payload, actor, created_at)
VALUES (:schedule_id::uuid, :original_local::timestamp, :fold::smallint, :new_local::timestamp, :payload::text::jsonb,
    :actor::text, coalesce(:now::timestamptz, now()))
ON CONFLICT (schedule_id, original_local, fold) DO UPDATE
    SET new_local = excluded.new_local, payload = excluded.payload, actor = excluded.actor,
        created_at = excluded.created_at
