-- Whether this request is the only one with its key that is under way. The lock ends with the transaction, however that
-- ends, so a caller that dies leaves nothing behind.
SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0)) AS is_locked
