-- A version that is shipped is numbered after those of every tenant, one of a tenant after its own and the shipped ones.
WITH template AS (
    INSERT INTO timebell_notify.templates
        (tenant, key, version, topic, class, variables, is_locked, actor, created_at)
    SELECT :tenant::text, :key::text, coalesce(max(version), 0) + 1, :topic::text, :class::text,
        :variables::text::jsonb, :is_locked::boolean, :actor::text, coalesce(:now::timestamptz, now())
    FROM timebell_notify.templates
    WHERE key = :key::text AND (:tenant::text = '' OR tenant IN (:tenant::text, ''))
    RETURNING version, created_at
), texts AS (
    INSERT INTO timebell_notify.template_texts (tenant, key, version, channel, language, format, subject, body)
    SELECT :tenant::text, :key::text, template.version, text.channel, text.language, text.format, text.subject,
        text.body
    FROM template
    CROSS JOIN unnest(:channels::text[], :languages::text[], :formats::text[], :subjects::text[], :bodies::text[])
        AS text (channel, language, format, subject, body)
)
SELECT version, created_at FROM template
