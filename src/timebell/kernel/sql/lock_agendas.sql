-- As lock_agenda, for many subjects; in their order, so that two callers wait for each other instead of deadlocking.
INSERT INTO timebell.agendas AS a (tenant, subject, anchor, updated_at)
SELECT :tenant::text, s.subject, s.anchor, coalesce(:now::timestamptz, now())
FROM unnest(:subjects::text[], :anchors::timestamptz[]) AS s(subject, anchor)
ORDER BY s.subject
ON CONFLICT (tenant, subject) DO UPDATE
    SET revision = a.revision + 1, anchor = excluded.anchor, updated_at = excluded.updated_at
RETURNING subject, revision, updated_at AS now
