-- Names that were cancelled before anybody asked for them. Where another was faster with a name, fewer are counted.
WITH inserted AS (
    INSERT INTO scheduler.requests (tenant, id, number, cancelled_at, created_at, updated_at)
    SELECT :tenant::text, w.id, w.number, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()),
        coalesce(:now::timestamptz, now())
    FROM unnest(:ids::text[], :numbers::uuid[]) AS w(id, number)
    ORDER BY w.id COLLATE "C"
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING 1
)
SELECT count(*)::integer AS inserted_count FROM inserted
