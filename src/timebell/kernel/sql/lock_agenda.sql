-- Locks the subject's agenda before anything is compared with it: two statements, so that the second sees what
-- whoever held the lock before has written.
INSERT INTO timebell.agendas AS a (tenant, subject, anchor, updated_at)
VALUES (:tenant::text, :subject::text, :anchor::timestamptz, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant, subject) DO UPDATE
    SET revision = a.revision + 1, anchor = excluded.anchor, updated_at = excluded.updated_at
RETURNING revision, updated_at AS now
