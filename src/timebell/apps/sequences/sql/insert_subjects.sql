-- Answers with those that are new: another transaction may have been faster with one.
INSERT INTO sequences.subjects (tenant, subject, id, is_booking, status, subtype, starts_at, ends_at, timezone, facts, dates_at,
    created_at, updated_at)
SELECT :tenant::text, n.subject, n.id, n.is_booking, n.status, n.subtype, n.starts_at, n.ends_at, n.timezone, n.facts::jsonb,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
FROM unnest(:subjects::text[], :ids::uuid[], :bookings::boolean[], :statuses::text[], :subtypes::text[],
    :starts_ats::timestamptz[], :ends_ats::timestamptz[], :timezones::text[], :facts::text[])
    AS n(subject, id, is_booking, status, subtype, starts_at, ends_at, timezone, facts)
ORDER BY n.subject
ON CONFLICT (tenant, subject) DO NOTHING
RETURNING subject
