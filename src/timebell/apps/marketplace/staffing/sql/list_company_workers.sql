-- Workers of one company, the oldest first.
SELECT w.id, w.recipient_id, w.company_id, w.state, w.trade, w.zip, w.skills, w.hourly_rate, w.number, w.created_at,
    w.updated_at
FROM marketplace.workers w
WHERE w.tenant = :tenant::text AND w.company_id = :company_id::uuid AND w.state = :state::text
    AND w.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    AND (:trade::text IS NULL OR w.trade = :trade::text)
    AND (:zip_from::text IS NULL OR w.zip >= :zip_from::text) AND (:zip_to::text IS NULL OR w.zip < :zip_to::text)
    AND (:rate_max::bigint IS NULL OR w.hourly_rate <= :rate_max::bigint)
    AND w.skills @> :skills::text[]
    AND (:since::timestamptz IS NULL OR NOT EXISTS (SELECT FROM marketplace.taken t
        WHERE t.tenant = w.tenant AND t.worker_id = w.id
            AND t.during && tstzrange(:since::timestamptz, :before::timestamptz)))
ORDER BY w.id LIMIT :limit::integer + 1
