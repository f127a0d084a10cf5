-- Payments that nobody has settled for so long, in the order of tenant and subject.
SELECT p.tenant, p.id, p.booking_id, p.created_at
FROM marketplace.pending_payments p
WHERE p.status = 'Pending'
    AND p.created_at <= coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'
    AND (p.tenant COLLATE "C", 'payment:' || p.id) > (:after_tenant::text, :after_subject::text COLLATE "C")
ORDER BY p.tenant COLLATE "C", p.id LIMIT :limit::integer
