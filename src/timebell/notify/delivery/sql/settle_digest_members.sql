-- What became of digests became of everything in them.
UPDATE timebell_notify.notifications n
SET state = s.state, reason = CASE WHEN s.is_told THEN 'in_digest' ELSE s.reason END, held_until = NULL,
    settled_at = coalesce(:now::timestamptz, now()),
    decisions = CASE WHEN jsonb_array_length(n.decisions) < 50 THEN n.decisions ELSE n.decisions - 0 END
        || jsonb_build_object('at', coalesce(:now::timestamptz, now()), 'checks', jsonb_build_array(jsonb_build_object(
            'name', 'digest', 'verdict', CASE WHEN s.is_told THEN 'passed' ELSE 'refused' END,
            'reason', CASE WHEN s.is_told THEN 'in_digest' ELSE s.reason END,
            'detail', jsonb_build_object('digest_id', s.digest_id, 'notification_id', s.notification_id))))
FROM (SELECT a.*, a.state IN ('sent', 'delivered') AS is_told
    FROM unnest(:tenants::text[], :digest_ids::uuid[], :notification_ids::uuid[], :states::text[], :reasons::text[])
        AS a(tenant, digest_id, notification_id, state, reason)) s
WHERE n.tenant = s.tenant AND n.digest_id = s.digest_id AND n.settled_at IS NULL
