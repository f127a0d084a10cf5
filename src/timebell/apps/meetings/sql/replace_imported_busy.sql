-- The times of a calendar, and no others; those that stay are left as they are.
WITH wanted AS (
    SELECT tstzrange(start_at, end_at) AS during
    FROM unnest(:start_ats::timestamptz[], :end_ats::timestamptz[]) AS given (start_at, end_at)
), gone AS (
    DELETE FROM meetings.imported_busy b
    WHERE b.tenant = :tenant::text AND b.import_id = :import_id::uuid
        AND NOT EXISTS (SELECT FROM wanted w WHERE w.during = b.during)
)
INSERT INTO meetings.imported_busy (tenant, recipient_id, import_id, during)
SELECT :tenant::text, :recipient_id::uuid, :import_id::uuid, w.during FROM wanted w
WHERE NOT EXISTS (
    SELECT FROM meetings.imported_busy b
    WHERE b.tenant = :tenant::text AND b.import_id = :import_id::uuid AND b.during = w.during
)
