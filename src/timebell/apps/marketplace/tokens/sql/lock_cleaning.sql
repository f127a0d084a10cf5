-- Of those who issue the first links of a tenant at once, one makes its schedule and the others find it.
SELECT pg_advisory_xact_lock(hashtextextended('marketplace.token_cleanings of ' || :tenant::text, 0))
