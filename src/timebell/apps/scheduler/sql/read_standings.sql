-- How requests stand that are locked, and whether a payload is the one that they have: the same text, or the same values.
SELECT s.id, s.status, w.position::integer AS position,
    CASE WHEN s.payload::text IS NOT DISTINCT FROM w.payload THEN true WHEN s.payload IS NULL OR w.payload IS NULL THEN false
        ELSE s.payload::jsonb IS NOT DISTINCT FROM w.payload::jsonb END AS is_same_payload
FROM unnest(:ids::text[], :payloads::text[]) WITH ORDINALITY AS w(id, payload, position)
JOIN scheduler.standings s ON s.tenant = :tenant::text AND s.id = w.id
