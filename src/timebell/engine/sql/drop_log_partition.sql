-- The oldest partition that lies wholly before the kept days; real time, for partitions are of real days.
SELECT timebell.drop_log_partition((coalesce(:lease_now::timestamptz, now()) AT TIME ZONE 'UTC')::date - :days::integer)
    AS dropped
