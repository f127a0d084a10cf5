-- What time it is, as late as the server can say it.
SELECT coalesce(:now::timestamptz, clock_timestamp()) AS now
