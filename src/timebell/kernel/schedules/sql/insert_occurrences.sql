-- Occurrences of one schedule or of many. One fold, state or revision may stand for all, and where nothing was moved or
-- adjusted those columns are empty. The answer names those that were there already, seldom any, which stay as they are.
WITH inserted AS (
    INSERT INTO timebell.occurrences (schedule_id, original_local, fold, id, tenant, local, occurs_at, adjusted, state,
        revision, timezone_version, created_at)
    SELECT o.schedule_id, o.original_local, coalesce(o.fold, (:folds::smallint[])[1]), o.id,
        coalesce(o.tenant, (:tenants::text[])[1]), coalesce(o.local, o.original_local), o.occurs_at, o.adjusted,
        coalesce(o.state, (:states::text[])[1]), coalesce(o.revision, (:revisions::integer[])[1]),
        :timezone_version::text, coalesce(:now::timestamptz, now())
    FROM unnest(:schedule_ids::uuid[], :original_locals::timestamp[], :folds::smallint[], :ids::uuid[],
        :tenants::text[], :locals::timestamp[], :occurs_ats::timestamptz[], :adjusteds::text[], :states::text[],
        :revisions::integer[])
        AS o(schedule_id, original_local, fold, id, tenant, local, occurs_at, adjusted, state, revision)
    ORDER BY o.schedule_id, o.original_local, o.fold
    ON CONFLICT (schedule_id, original_local, fold) DO NOTHING
    RETURNING id
)
SELECT unnest(:ids::uuid[]) AS id EXCEPT SELECT id FROM inserted
