-- Of what happens to the searches of a person at once, one is done after the other.
SELECT pg_advisory_xact_lock(hashtextextended('marketplace.saved_searches ' || u.id || ' of ' || :tenant::text, 0))
FROM unnest(:user_ids::uuid[]) AS u (id)
