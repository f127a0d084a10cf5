-- Nobody joins the digest any more.
UPDATE timebell_notify.digests SET closed_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND closed_at IS NULL
