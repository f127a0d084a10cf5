-- A payment of which everything went back.
UPDATE marketplace.pending_payments p
SET status = 'Refunded', updated_at = coalesce(:now::timestamptz, now())
WHERE p.tenant = :tenant::text AND p.id = :id::uuid AND p.status <> 'Refunded' AND p.status <> 'Pending'
    AND p.amount = (SELECT coalesce(sum(e.amount), 0) FROM marketplace.ledger_entries e
        WHERE e.tenant = :tenant::text AND e.payment_id = p.id AND e.type = 'refund')
RETURNING p.id
