-- How many each of these people was told at once in the hour before.
SELECT u.id AS user_id, t.count
FROM unnest(:user_ids::uuid[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count
    FROM (SELECT FROM marketplace.search_alerts a
        WHERE a.tenant = :tenant::text AND a.user_id = u.id AND a.state = 'told'
            AND a.alerted_at > coalesce(:now::timestamptz, now()) - interval '1 hour'
        LIMIT :limit::integer) a) t
