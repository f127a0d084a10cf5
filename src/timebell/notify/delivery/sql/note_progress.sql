-- How far each notification has come, and what was considered on the way. Its story is kept to the last fifty entries.
-- One that joined a digest may have left it, or have been told with it, before it is noted that it joined. What is
-- settled is not opened again by a run of a node that stood still meanwhile. Of somebody who was erased nothing is kept
-- but the state.
UPDATE timebell_notify.notifications n
SET state = p.state, reason = p.reason, held_until = p.held_until, digest_id = p.digest_id,
    settled_at = CASE WHEN p.is_settled THEN coalesce(:now::timestamptz, now()) END,
    decisions = CASE WHEN n.is_erased THEN '[]'
        ELSE CASE WHEN jsonb_array_length(n.decisions) < 50 THEN n.decisions ELSE n.decisions - 0 END || p.decision::jsonb
        END
FROM unnest(:tenants::text[], :ids::uuid[], :states::text[], :reasons::text[], :held_untils::timestamptz[],
    :digest_ids::uuid[], :settled::boolean[], :decisions::text[])
    AS p(tenant, id, state, reason, held_until, digest_id, is_settled, decision)
WHERE n.tenant = p.tenant AND n.id = p.id AND (p.is_settled OR n.settled_at IS NULL)
    AND (p.digest_id IS NULL OR n.digest_id = p.digest_id AND n.settled_at IS NULL)
