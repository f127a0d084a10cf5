-- Payments, the oldest first: all, or those of bookings that somebody has a part in, as a list of bookings shows them. One
-- call looks at no more than look_max of them.
SELECT looked.id, looked.tenant, looked.booking_id, looked.period_start, looked.period_end, looked.amount, looked.currency,
    looked.status, looked.provider, looked.provider_intent_id, looked.idempotency_key, looked.attempt, looked.failure,
    looked.correlation_id, looked.settled_at, looked.created_at, looked.updated_at, looked.is_match, looked.is_end
FROM (
    SELECT p.*, row_number() OVER (ORDER BY p.id) = :look_max::integer AS is_end,
        (:status::text IS NULL OR p.status = :status::text)
        AND (:person::uuid IS NULL OR EXISTS (
            SELECT FROM marketplace.staffing_bookings b
            JOIN marketplace.workers w ON w.tenant = :tenant::text AND w.id = b.worker_id
            WHERE b.tenant = :tenant::text AND b.id = p.booking_id
                AND (b.supervisor_id = :person::uuid OR w.recipient_id = :person::uuid
                    OR EXISTS (SELECT FROM marketplace.company_members m
                        WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid AND m.role <> 'worker'
                            AND m.company_id IN (b.borrower_company_id, b.lender_company_id))))) AS is_match
    FROM marketplace.pending_payments p
    WHERE p.tenant = :tenant::text AND (:booking_id::uuid IS NULL OR p.booking_id = :booking_id::uuid)
        AND p.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY p.id LIMIT :look_max::integer
) looked
WHERE looked.is_match OR looked.is_end
ORDER BY looked.id LIMIT :limit::integer + 1
