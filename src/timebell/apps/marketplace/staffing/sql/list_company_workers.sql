-- Workers of one company, the oldest first.
SELECT w.id, w.recipient_id, w.company_id, w.state, w.trade, w.zip, w.skills, w.hourly_rate, w.number, w.created_at,
    w.updated_at
FROM marketplace.workers w
WHERE w.tenant = :tenant::text AND w.company_id = :company_id::uuid AND w.state = :state::text
    AND w.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND marketplace.fits(:trade::text, :zip_from::text, :zip_to::text, :skills::text[], :rate_max::bigint,
        w.trade, w.zip, w.skills, w.hourly_rate)
    AND marketplace.is_free(w.tenant, w.id, :since::timestamptz, :before::timestamptz)
ORDER BY w.id LIMIT :limit::integer + 1
