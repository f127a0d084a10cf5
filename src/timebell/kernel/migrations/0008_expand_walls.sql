-- phase: expand
-- The wall between tenants, second line: whoever answers for one tenant sees and writes the rows of that tenant alone,
-- whatever a query forgets. The role of the nodes sees every tenant, and so does the reader's. The owner of the tables
-- sees none: a function that ran with the owner's rights would otherwise be a hole in the wall.

-- A partition is reached through the log alone, but for the reader, who may copy it. Otherwise as before.
CREATE OR REPLACE FUNCTION timebell.ensure_log_partitions(days_ahead integer) RETURNS integer
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
        PERFORM timebell.wall_log_partition(partition);
        EXECUTE format('ALTER TABLE timebell.job_log ATTACH PARTITION timebell.%I FOR VALUES FROM (%L) TO (%L)',
            partition, first_day + day_number, first_day + day_number + 1);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

CREATE OR REPLACE FUNCTION timebell.wall_log_partition(partition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := 'timebell.' || quote_ident(partition);
BEGIN
    EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
    EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
    EXECUTE 'GRANT SELECT ON ' || place || $sql$ TO {read_role}$sql$;
END $$;
REVOKE ALL ON FUNCTION timebell.wall_log_partition(text) FROM PUBLIC;

-- Those that are there, opened to {read_role} one by one.
DO $$
BEGIN
    PERFORM timebell.wall_log_partition(c.relname::text) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'timebell.job_log'::regclass;
END $$;

-- A chain over the audit trail of each tenant. A seal is a hash of its event and of the seal before it, so whatever is
-- changed or removed later, by whomever, no longer fits. Who records an event does not wait for its seal.
CREATE TABLE timebell.event_seals (
    tenant    text NOT NULL,
    number    bigint NOT NULL,
    event_id  uuid NOT NULL UNIQUE,
    hash      bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, number)
);
GRANT SELECT, INSERT ON timebell.event_seals TO {app_role};

-- The tenant is the one that the transaction was begun for. The setting reads as empty where it has lapsed, and that is no
-- tenant. It is asked in a query of its own, so once for a statement and not for every row.
DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['timebell.queue_pauses', 'timebell.jobs', 'timebell.job_keys', 'timebell.job_log',
        'timebell.dead_jobs', 'timebell.agendas', 'timebell.agenda_done', 'timebell.events', 'timebell.event_seals',
        'timebell.schedules', 'timebell.occurrences', 'timebell.occurrence_overrides'] LOOP
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        CONTINUE WHEN place = 'timebell.occurrence_overrides';
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

-- An override is its schedule's, and the wall in front of the schedules says whose that is.
CREATE POLICY api ON timebell.occurrence_overrides TO {api_role}
    USING (EXISTS (SELECT FROM timebell.schedules s WHERE s.id = occurrence_overrides.schedule_id));

-- That a queue is paused for everybody concerns every tenant, and is decided by the one that administers the others.
CREATE POLICY api_everybody ON timebell.queue_pauses FOR SELECT TO {api_role}
    USING (tenant = '' AND (SELECT nullif(current_setting('timebell.tenant', true), '')) IS NOT NULL);
CREATE POLICY api_default ON timebell.queue_pauses TO {api_role}
    USING (tenant = '' AND (SELECT current_setting('timebell.tenant', true)) = 'default');

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.queue_pauses, timebell.jobs, timebell.job_keys, timebell.dead_jobs,
    timebell.agendas, timebell.agenda_done, timebell.schedules, timebell.occurrences, timebell.occurrence_overrides
    TO {api_role};
GRANT SELECT, INSERT ON timebell.job_log, timebell.events TO {api_role};
GRANT SELECT ON timebell.event_seals, timebell.queues, timebell.kinds, timebell.nodes, timebell.slots, timebell.breakers
    TO {api_role};
-- Whoever plans holds the rows of its timezones, which asks for the right to change something in them.
GRANT SELECT, INSERT, UPDATE (updated_at) ON timebell.timezones TO {api_role};
GRANT EXECUTE ON FUNCTION timebell.new_id(), timebell.job_fingerprint(text, text, jsonb, timestamptz),
    timebell.enqueue(text, jsonb, timestamptz, text, text, text, text, timestamptz, integer, text, integer, text,
        timestamptz),
    timebell.cancel_jobs(text, uuid, text, text, text, text, text, uuid, integer, timestamptz),
    timebell.cancel(uuid, text, text, text, text, text) TO {api_role};

GRANT SELECT ON timebell.queues, timebell.queue_pauses, timebell.kinds, timebell.jobs, timebell.job_keys,
    timebell.job_log, timebell.dead_jobs, timebell.agendas, timebell.agenda_done, timebell.events,
    timebell.event_seals, timebell.nodes, timebell.slots, timebell.queue_rates, timebell.permits, timebell.breakers, timebell.schedules, timebell.occurrences,
    timebell.occurrence_overrides, timebell.timezones TO {read_role};
GRANT SELECT ON SEQUENCE timebell.incarnations TO {read_role};
