-- Whoever entered a sequence before, by the same entry, is in it already. Answers with those that are new.
INSERT INTO sequences.enrolments (tenant, subject, sequence_id, entry, version, event_at, created_at)
SELECT :tenant::text, n.subject, n.sequence_id, n.entry, n.version, coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now())
FROM unnest(:subjects::text[], :sequence_ids::uuid[], :entries::integer[], :versions::integer[])
    AS n(subject, sequence_id, entry, version)
ON CONFLICT (tenant, subject, sequence_id, entry) DO NOTHING
RETURNING subject, sequence_id, entry, version, event_at, ended_reason
