-- Of those who change what is owed about a subject at once, one goes on. Always in the same order, so that nobody waits for
-- each other.
SELECT subject FROM sequences.subjects WHERE tenant = :tenant::text AND subject = ANY (:subjects::text[])
ORDER BY subject FOR UPDATE
