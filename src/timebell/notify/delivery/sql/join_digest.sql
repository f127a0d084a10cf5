-- A notification waits for its digest, as it stands now: an agenda may have changed it since it was noted. No row comes
-- back where it was settled meanwhile, or where another run has put it into a digest or taken it out of one. The answer
-- is who tells the digest, and whether that is still going to happen.
UPDATE timebell_notify.notifications n
SET digest_id = :digest_id::uuid, state = 'held', reason = 'held_digest', held_until = :closes_at::timestamptz,
    template = :template::text, template_version = :template_version::integer, topic = :topic::text,
    class = :message_class::text, urgency = :urgency::text, guard = :guard::text, expires_at = :expires_at::timestamptz,
    due_at = :due_at::timestamptz, context_from = :context_from::text, context = CASE WHEN n.is_erased THEN '{}' ELSE :context::jsonb END
FROM timebell_notify.digests g
WHERE g.tenant = :tenant::text AND g.id = :digest_id::uuid
    AND n.tenant = :tenant::text AND n.id = :id::uuid AND n.settled_at IS NULL
    AND n.digest_id IS NOT DISTINCT FROM :before::uuid
RETURNING g.notification_id,
    EXISTS (SELECT FROM timebell_notify.owed o WHERE o.tenant = g.tenant AND o.id = g.notification_id) AS is_owed
