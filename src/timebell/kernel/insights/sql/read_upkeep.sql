-- Whether all that must be there is there: nodes, an owner who lives for every slot, and days of the log to come.
SELECT
    (SELECT count(*) FROM timebell.nodes n WHERE n.lease_until > coalesce(:lease_now::timestamptz, now())) AS node_count,
    (
        SELECT count(*) FROM timebell.slots s
        LEFT JOIN timebell.nodes n
            ON n.incarnation = s.owner AND n.lease_until > coalesce(:lease_now::timestamptz, now())
        WHERE n.incarnation IS NULL
    ) AS unowned_slot_count,
    (
        SELECT coalesce(max(to_date(right(c.relname, 8), 'YYYYMMDD'))
            - (coalesce(:lease_now::timestamptz, now()) AT TIME ZONE 'UTC')::date, 0)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'timebell.job_log'::regclass
    ) AS log_days_ahead
