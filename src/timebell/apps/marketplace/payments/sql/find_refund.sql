-- The refund of a payment that nothing was held from.
SELECT o.id FROM marketplace.payouts o
WHERE o.tenant = :tenant::text AND o.payment_id = :payment_id::uuid AND o.sort = 'refund' AND o.state <> 'cancelled'
    AND NOT EXISTS (SELECT FROM marketplace.payout_lines l WHERE l.tenant = :tenant::text AND l.payout_id = o.id)
