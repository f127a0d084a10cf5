-- Occurrences that are there, as they should be now: moved, skipped, or only confirmed under a new revision.
UPDATE timebell.occurrences AS old
SET local = o.local, occurs_at = o.occurs_at, adjusted = o.adjusted, state = o.state, revision = o.revision,
    timezone_version = :timezone_version::text
FROM unnest(:ids::uuid[], :locals::timestamp[], :occurs_ats::timestamptz[], :adjusteds::text[], :states::text[],
    :revisions::integer[]) AS o(id, local, occurs_at, adjusted, state, revision)
WHERE old.id = o.id
