-- Of some kinds those that no living node has a handler for. A node of an older release does not say what it can run.
SELECT k.kind FROM unnest(:kinds::text[]) AS k(kind)
WHERE NOT EXISTS (
    SELECT FROM timebell.nodes n
    WHERE n.lease_until > coalesce(:lease_now::timestamptz, now()) AND (n.kinds IS NULL OR k.kind = ANY(n.kinds)))
ORDER BY k.kind
