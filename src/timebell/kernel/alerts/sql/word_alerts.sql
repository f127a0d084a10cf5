-- What is open is said in other words. The tenant is that of the transaction.
UPDATE timebell.alerts a SET detail = n.detail
FROM unnest(:ids::uuid[], :details::text[]) AS n(id, detail)
WHERE a.tenant = :tenant::text AND a.id = n.id AND a.opened_at IS NOT NULL AND a.closed_at IS NULL
RETURNING a.id
