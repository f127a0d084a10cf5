-- What became of notifications by what was reported, as part of their story, which is kept to the last fifty entries.
UPDATE timebell_notify.notifications n
SET state = r.state, reason = r.reason,
    decisions = CASE WHEN n.is_erased THEN '[]'
        ELSE CASE WHEN jsonb_array_length(n.decisions) < 50 THEN n.decisions ELSE n.decisions - 0 END || r.decision::jsonb
        END
FROM unnest(:ids::uuid[], :states::text[], :reasons::text[], :decisions::text[]) AS r(id, state, reason, decision)
WHERE n.tenant = :tenant::text AND n.id = r.id
