-- The next tenant that has messages of which it is not known what became.
SELECT m.tenant FROM sequences.messages m
WHERE m.tenant > :after::text AND m.status = 'scheduled' ORDER BY m.tenant LIMIT 1
