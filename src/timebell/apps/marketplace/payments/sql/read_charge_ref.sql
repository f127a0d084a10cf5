-- The provider's name for what a payment has charged, as the ledger has it.
SELECT e.provider_ref FROM marketplace.ledger_entries e
WHERE e.tenant = :tenant::text AND e.payment_id = :payment_id::uuid AND e.type = 'charge'
