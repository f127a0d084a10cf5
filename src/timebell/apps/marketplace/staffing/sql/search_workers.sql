-- Those of one trade who can be booked, by their zip, so that each page is a piece of one index.
SELECT w.id, w.recipient_id, w.company_id, w.state, w.trade, w.zip, w.skills, w.hourly_rate, w.number, w.created_at,
    w.updated_at
FROM marketplace.workers w
WHERE w.tenant = :tenant::text AND w.state = 'Listed' AND w.trade = :trade::text
    AND w.zip >= (SELECT coalesce(:zip_from::text, '')) AND w.zip < (SELECT coalesce(:zip_to::text, chr(127)))
    AND (w.zip, w.id) > ((SELECT coalesce(max(a.zip), '') FROM marketplace.workers a
            WHERE a.tenant = :tenant::text AND a.id = :after::uuid),
        (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')))
    AND marketplace.fits(:trade::text, :zip_from::text, :zip_to::text, :skills::text[], :rate_max::bigint,
        w.trade, w.zip, w.skills, w.hourly_rate)
    AND marketplace.is_free(w.tenant, w.id, :since::timestamptz, :before::timestamptz)
ORDER BY w.zip, w.id LIMIT :limit::integer + 1
