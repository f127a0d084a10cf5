-- What was only seen opens. The tenant is that of the transaction.
UPDATE timebell.alerts a SET opened_at = coalesce(:now::timestamptz, now()), detail = n.detail
FROM unnest(:ids::uuid[], :details::text[]) AS n(id, detail)
WHERE a.tenant = :tenant::text AND a.id = n.id AND a.opened_at IS NULL
RETURNING a.id, a.subject, a.detail
