-- phase: expand
-- The partitions of the log. The application owns no table, so it makes and drops them through two functions
-- that run with the owner's rights and do nothing else.

-- There is no DEFAULT partition: it would refuse a concurrent detach and hide a partition that was not made.
CREATE FUNCTION timebell.ensure_log_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    first_day date := (now() AT TIME ZONE 'UTC')::date - 1;
    partition text;
    made      integer := 0;
BEGIN
    IF days_ahead NOT BETWEEN 0 AND 400 THEN
        RAISE EXCEPTION 'days_ahead must be between 0 and 400, was %', days_ahead;
    END IF;
    FOR day_number IN 0 .. days_ahead + 1 LOOP
        partition := 'job_log_' || to_char(first_day + day_number, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('timebell.' || partition) IS NOT NULL;
        -- One maker at a time. A table that is made apart and attached holds up nobody who reads or writes the log;
        -- PARTITION OF would wait for every reader, and every finish would wait behind it.
        LOCK TABLE timebell.job_log IN SHARE UPDATE EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass('timebell.' || partition) IS NOT NULL;
        EXECUTE format('CREATE TABLE timebell.%I (LIKE timebell.job_log INCLUDING ALL)', partition);
        EXECUTE format('ALTER TABLE timebell.job_log ATTACH PARTITION timebell.%I FOR VALUES FROM (%L) TO (%L)',
            partition, first_day + day_number, first_day + day_number + 1);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Drops the oldest partition that lies wholly before the day, or answers NULL. A reader of the log makes it
-- give up after a tenth of a second instead of holding up every finish behind its lock.
CREATE FUNCTION timebell.drop_log_partition(before_day date) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    partition text;
BEGIN
    IF before_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RAISE EXCEPTION 'before_day must lie in the past, was %', before_day;
    END IF;
    SELECT c.relname INTO partition
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'timebell.job_log'::regclass AND c.relname < 'job_log_' || to_char(before_day, 'YYYYMMDD')
    ORDER BY c.relname LIMIT 1;
    IF partition IS NOT NULL THEN
        EXECUTE format('ALTER TABLE timebell.job_log DETACH PARTITION timebell.%I', partition);
        EXECUTE format('DROP TABLE timebell.%I', partition);
    END IF;
    RETURN partition;
END $$;

REVOKE ALL ON FUNCTION timebell.ensure_log_partitions(integer), timebell.drop_log_partition(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION timebell.ensure_log_partitions(integer), timebell.drop_log_partition(date) TO {app_role};
SELECT timebell.ensure_log_partitions(14);
