-- What a tenant decided; no row comes back where another decision came first.
INSERT INTO timebell_notify.policies AS p (tenant, policy, revision, updated_at)
VALUES (:tenant::text, :policy::text::jsonb, 1, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO UPDATE
SET policy = excluded.policy, revision = p.revision + 1, updated_at = excluded.updated_at
WHERE p.revision = :revision::integer
RETURNING p.revision
