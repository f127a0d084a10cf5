-- Who is new for each of these searches up to an instant: since its digest before, and of those whom it has not told of at
-- once. A search without digests has one for those who are left to it. Whoever was listed right before, in a transaction
-- that may not be over, is in the next one.
SELECT s.id AS search_id, w.id AS worker_id, w.trade, w.zip, w.skills, w.hourly_rate
FROM (SELECT o.*, CASE WHEN o.digest_enabled
        THEN greatest(coalesce(o.last_digest_at, least(o.created_at, :first::timestamptz)), :least::timestamptz)
        ELSE :least::timestamptz END - :lag::interval AS new_since
    FROM marketplace.saved_searches o
    WHERE o.tenant = :tenant::text AND o.id = ANY (:ids::uuid[])) s
CROSS JOIN LATERAL (
    SELECT n.*
    FROM (
        SELECT t.* FROM marketplace.workers t
        WHERE s.trade IS NOT NULL AND t.tenant = :tenant::text AND t.state = 'Listed' AND t.trade = s.trade
            AND t.listed_at > s.new_since AND t.listed_at <= :at::timestamptz - :lag::interval
        UNION ALL
        SELECT a.* FROM marketplace.workers a
        WHERE s.trade IS NULL AND a.tenant = :tenant::text AND a.state = 'Listed'
            AND a.listed_at > s.new_since AND a.listed_at <= :at::timestamptz - :lag::interval) n
    WHERE marketplace.fits(s.trade, s.zip_from, s.zip_to, s.skills, s.rate_max, n.trade, n.zip, n.skills, n.hourly_rate)
        AND NOT EXISTS (SELECT FROM marketplace.search_alerts x
            WHERE x.tenant = :tenant::text AND x.search_id = s.id AND x.worker_id = n.id AND x.state <> 'overflow'
                AND x.alerted_at > s.new_since)
        AND (s.digest_enabled OR EXISTS (SELECT FROM marketplace.search_alerts x
            WHERE x.tenant = :tenant::text AND x.search_id = s.id AND x.worker_id = n.id AND x.state = 'overflow'))
        AND marketplace.is_free(:tenant::text, n.id, s.since, s.before)
    ORDER BY n.listed_at, n.id LIMIT :limit::integer + 1) w
ORDER BY s.id, w.listed_at, w.id
