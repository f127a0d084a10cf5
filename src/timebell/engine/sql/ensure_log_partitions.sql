-- The log's partitions are made ahead of time: without one for today, every finish would fail.
SELECT timebell.ensure_log_partitions(:days_ahead::integer) AS made
