-- The searches were in the digest of that instant; a search that finds nobody for long ends, where a tenant wants that.
WITH told AS (
    UPDATE marketplace.search_alerts a SET state = 'digested'
    WHERE a.tenant = :tenant::text AND a.search_id = ANY (:ids::uuid[]) AND a.state = 'overflow'
        AND a.listed_at <= :at::timestamptz - :lag::interval
)
UPDATE marketplace.saved_searches s
SET last_digest_at = :at::timestamptz,
    zero_streak = CASE WHEN d.is_found THEN 0 WHEN s.digest_enabled THEN s.zero_streak + 1 ELSE s.zero_streak END,
    is_active = :zero_max::integer IS NULL OR d.is_found OR NOT s.digest_enabled
        OR s.zero_streak + 1 < :zero_max::integer,
    has_overflow = EXISTS (SELECT FROM marketplace.search_alerts x
        WHERE x.tenant = :tenant::text AND x.search_id = s.id AND x.state = 'overflow'
            AND x.listed_at > :at::timestamptz - :lag::interval)
FROM unnest(:ids::uuid[], :founds::boolean[]) AS d (id, is_found)
WHERE s.tenant = :tenant::text AND s.id = d.id
RETURNING s.id, s.user_id, s.is_active
