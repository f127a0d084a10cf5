INSERT INTO sequences.sequences (tenant, id, name, trigger_event, subtype, is_active, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :name::text, :trigger_event::text, :subtype::text, :is_active::boolean,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
