-- Which version of each template is meant: the one that is named, or else the current one, which is the tenant's own
-- unless what is shipped is locked.
SELECT asked.position, template.tenant, template.key, template.version, template.topic, template.class,
    template.is_locked, coalesce(move.number, 0) AS move
FROM unnest(:tenants::text[], :keys::text[], :versions::integer[])
    WITH ORDINALITY AS asked (tenant, key, version, position)
CROSS JOIN LATERAL (
    SELECT *
    FROM timebell_notify.templates AS candidate
    WHERE candidate.tenant IN (asked.tenant, '') AND candidate.key = asked.key
        AND CASE WHEN asked.version IS NULL THEN candidate.is_current ELSE candidate.version = asked.version END
    ORDER BY (candidate.tenant = '' AND candidate.is_locked) DESC, candidate.tenant DESC
    LIMIT 1
) AS template
LEFT JOIN timebell_notify.template_moves AS move ON move.tenant = asked.tenant AND move.key = asked.key
ORDER BY asked.position
