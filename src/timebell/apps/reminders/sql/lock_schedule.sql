-- Until the transaction ends nobody else settles the tasks of this schedule, so that no occurrence gets two.
SELECT pg_advisory_xact_lock(hashtextextended('reminders:' || :schedule_id::uuid::text, 0))
