-- Of those who install into one tenant at once, one goes on: sequences are known by their names, which no index keeps apart.
SELECT pg_advisory_xact_lock(hashtextextended('sequences.install ' || :tenant::text, 0))
