-- A number for each person who has none. In the order of their ids, so that of two who do so neither waits for the other.
INSERT INTO meetings.people (tenant, recipient_id)
SELECT :tenant::text, w.id FROM unnest(:people::uuid[]) AS w (id)
WHERE NOT EXISTS (SELECT FROM meetings.people p WHERE p.tenant = :tenant::text AND p.recipient_id = w.id)
ORDER BY w.id
ON CONFLICT (tenant, recipient_id) DO NOTHING
