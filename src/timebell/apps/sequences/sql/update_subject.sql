-- What is said of a subject now. The dates were decided now where they differ from those before.
UPDATE sequences.subjects
SET status = :status::text, subtype = :subtype::text, starts_at = :starts_at::timestamptz, ends_at = :ends_at::timestamptz,
    timezone = :timezone::text, facts = :facts::jsonb, revision = revision + 1,
    dates_at = CASE WHEN (starts_at, ends_at, timezone)
        IS DISTINCT FROM (:starts_at::timestamptz, :ends_at::timestamptz, :timezone::text)
        THEN coalesce(:now::timestamptz, now()) ELSE dates_at END,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND subject = :subject::text
