-- What was found unwanted when its digest was told is not part of that any more.
UPDATE timebell_notify.notifications n
SET digest_id = NULL, state = 'skipped', reason = s.reason, held_until = NULL,
    settled_at = coalesce(:now::timestamptz, now()),
    decisions = CASE WHEN n.is_erased THEN '[]'
        ELSE CASE WHEN jsonb_array_length(n.decisions) < 50 THEN n.decisions ELSE n.decisions - 0 END || s.decision::jsonb
        END
FROM unnest(:ids::uuid[], :reasons::text[], :decisions::text[]) AS s(id, reason, decision)
WHERE n.tenant = :tenant::text AND n.id = s.id AND n.settled_at IS NULL
