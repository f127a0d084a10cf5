-- Messages that are not to be sent any more, each with its reason. What they said stays as it was.
UPDATE sequences.messages m SET status = 'cancelled', reason = n.reason
FROM unnest(:ids::uuid[], :reasons::text[]) AS n(id, reason)
WHERE m.tenant = :tenant::text AND m.id = n.id
