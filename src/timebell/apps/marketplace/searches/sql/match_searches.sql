-- Which searches find a worker who was listed, some at a time. A search lies under three keys, and whoever is listed knows
-- all under which one may lie that finds them; only there it is looked.
SELECT p.number, s.id, s.user_id, s.channels, s.timezone
FROM marketplace.workers w
CROSS JOIN unnest(:trade_keys::text[], :zip_keys::text[], :skill_keys::text[])
    WITH ORDINALITY AS p (trade_key, zip_key, skill_key, number)
CROSS JOIN LATERAL (
    SELECT o.id, o.user_id, o.channels, o.timezone
    FROM marketplace.saved_searches o
    WHERE o.tenant = :tenant::text AND o.is_active AND o.instant_enabled
        AND o.trade_key = p.trade_key AND o.zip_key = p.zip_key AND o.skill_key = p.skill_key
        AND o.id > CASE WHEN p.number = :after_number::bigint AND :after::uuid IS NOT NULL THEN :after::uuid
            ELSE '00000000-0000-0000-0000-000000000000' END
        AND marketplace.fits(o.trade, o.zip_from, o.zip_to, o.skills, o.rate_max, w.trade, w.zip, w.skills, w.hourly_rate)
        AND marketplace.is_free(:tenant::text, w.id, o.since, o.before)
    ORDER BY o.id LIMIT :limit::integer + 1) s
WHERE w.tenant = :tenant::text AND w.id = :worker_id::uuid AND w.state = 'Listed' AND p.number >= :after_number::bigint
ORDER BY p.number, s.id LIMIT :limit::integer + 1
