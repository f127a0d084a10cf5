SELECT asked.position, template.tenant, template.key, template.version, template.topic, template.class,
    template.variables::text AS variables, template.is_locked, template.is_current, template.actor,
    template.created_at, texts.texts
FROM unnest(:tenants::text[], :keys::text[], :versions::integer[])
    WITH ORDINALITY AS asked (tenant, key, version, position)
JOIN timebell_notify.templates AS template
    ON template.tenant IN (asked.tenant, '') AND template.key = asked.key AND template.version = asked.version
CROSS JOIN LATERAL (
    SELECT jsonb_agg(
        jsonb_build_object('channel', text.channel, 'language', text.language, 'format', text.format,
            'subject', text.subject, 'body', text.body)
        ORDER BY text.channel, text.language)::text AS texts
    FROM timebell_notify.template_texts AS text
    WHERE text.tenant = template.tenant AND text.key = template.key AND text.version = template.version
) AS texts
ORDER BY asked.position
