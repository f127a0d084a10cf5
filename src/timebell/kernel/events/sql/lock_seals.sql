-- Whether this transaction alone adds seals until it ends; another may be at it already.
SELECT pg_try_advisory_xact_lock(hashtextextended('timebell.event_seals', 0)) AS is_locked
