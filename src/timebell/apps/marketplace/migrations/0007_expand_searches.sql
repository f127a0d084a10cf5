-- phase: expand
-- Saved searches, who was told about whom, and what could not be told.

-- What a worker has to be so that a search finds them, said once for the search itself and for all that is told about it.
-- It stands in the place where it is called, so that no row costs a call.
CREATE FUNCTION marketplace.fits(p_trade text, p_zip_from text, p_zip_to text, p_skills text[], p_rate_max bigint,
    p_of_trade text, p_of_zip text, p_of_skills text[], p_of_rate bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (p_trade IS NULL OR p_of_trade COLLATE "C" = p_trade)
        AND (p_zip_from IS NULL OR (p_of_zip COLLATE "C" >= p_zip_from AND p_of_zip COLLATE "C" < p_zip_to))
        AND p_of_skills COLLATE "C" @> p_skills
        AND (p_rate_max IS NULL OR p_of_rate <= p_rate_max)
$$;
REVOKE ALL ON FUNCTION marketplace.fits(text, text, text, text[], bigint, text, text, text[], bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION marketplace.fits(text, text, text, text[], bigint, text, text, text[], bigint)
    TO {app_role}, {api_role};

-- Whether nobody has booked a worker in a time, as it is now.
CREATE FUNCTION marketplace.is_free(p_tenant text, p_worker_id uuid, p_since timestamptz, p_before timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN p_since IS NULL OR NOT EXISTS (SELECT FROM marketplace.taken t
        WHERE t.tenant = p_tenant AND t.worker_id = p_worker_id AND t.during && tstzrange(p_since, p_before));
END $$;
REVOKE ALL ON FUNCTION marketplace.is_free(text, uuid, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION marketplace.is_free(text, uuid, timestamptz, timestamptz) TO {app_role}, {api_role};

-- When somebody was listed last, for whoever asks who is new.
ALTER TABLE marketplace.workers ADD COLUMN listed_at timestamptz;
CREATE INDEX idx_workers_new ON marketplace.workers (tenant, listed_at) WHERE state = 'Listed';
CREATE INDEX idx_workers_new_of_trade ON marketplace.workers (tenant, trade, listed_at) WHERE state = 'Listed';

-- `criteria` are as they were said; the columns behind them are what the statements compare. Under the three keys a search
-- is found by whoever is listed: one trade or any, one zip, how it begins or any, and one of the skills or none. The
-- timezone is where its digest is told at five, as far as that was known last.
CREATE TABLE marketplace.saved_searches (
    tenant            text NOT NULL,
    id                uuid NOT NULL,
    user_id           uuid NOT NULL,
    criteria          jsonb NOT NULL,
    trade             text,
    zip_from          text COLLATE "C",
    zip_to            text COLLATE "C",
    skills            text[] NOT NULL,
    rate_max          bigint,
    since             timestamptz,
    before            timestamptz,
    trade_key         text COLLATE "C" NOT NULL,
    zip_key           text COLLATE "C" NOT NULL,
    skill_key         text COLLATE "C" NOT NULL,
    is_active         boolean NOT NULL DEFAULT true,
    instant_enabled   boolean NOT NULL,
    digest_enabled    boolean NOT NULL,
    send_empty_digest boolean NOT NULL,
    channels          text[] NOT NULL CHECK (cardinality(channels) BETWEEN 1 AND 2 AND channels <@ '{sms,email}'),
    timezone          text NOT NULL,
    has_overflow      boolean NOT NULL DEFAULT false,
    last_digest_at    timestamptz,
    zero_streak       integer NOT NULL DEFAULT 0 CHECK (zero_streak >= 0),
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK ((zip_from IS NULL) = (zip_to IS NULL)),
    CHECK ((since IS NULL) = (before IS NULL))
);
CREATE INDEX idx_saved_searches_user ON marketplace.saved_searches (user_id, is_active);
CREATE INDEX idx_saved_searches_match ON marketplace.saved_searches (tenant, trade_key, zip_key, skill_key, id)
    WHERE is_active AND instant_enabled;
CREATE INDEX idx_saved_searches_digest ON marketplace.saved_searches (tenant, timezone, user_id, id)
    WHERE is_active AND (digest_enabled OR has_overflow);

-- About whom a search has told its user at once, and who is left to its next digest. `listed_at` is when the worker was
-- listed that time.
CREATE TABLE marketplace.search_alerts (
    tenant    text NOT NULL,
    search_id uuid NOT NULL,
    worker_id uuid NOT NULL,
    user_id   uuid NOT NULL,
    event     uuid NOT NULL,
    state     text NOT NULL CHECK (state IN ('told', 'overflow', 'digested')),
    listed_at timestamptz NOT NULL,
    alerted_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, search_id, worker_id),
    FOREIGN KEY (tenant, search_id) REFERENCES marketplace.saved_searches (tenant, id) ON DELETE CASCADE
);
CREATE INDEX idx_search_alerts_user ON marketplace.search_alerts (tenant, user_id, alerted_at) WHERE state = 'told';
CREATE INDEX idx_search_alerts_old ON marketplace.search_alerts (alerted_at);

-- What was left out, why, and for how long that had lasted.
CREATE TABLE marketplace.alert_skips (
    tenant     text NOT NULL,
    id         uuid NOT NULL,
    search_id  uuid,
    worker_id  uuid,
    sort       text NOT NULL CHECK (sort IN ('instant', 'digest')),
    cause      text NOT NULL CHECK (cause IN ('database', 'extension', 'query')),
    duration   interval NOT NULL,
    skipped_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX idx_alert_skips_old ON marketplace.alert_skips (skipped_at);

-- The schedule of the digests of a timezone.
CREATE TABLE marketplace.digest_cycles (
    tenant      text NOT NULL,
    timezone    text NOT NULL,
    schedule_id uuid NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, timezone)
);

-- What a tenant decided; without a row the defaults of SearchSettings hold.
CREATE TABLE marketplace.search_settings (
    tenant            text PRIMARY KEY,
    alerts_per_hour   integer NOT NULL CHECK (alerts_per_hour >= 0),
    in_quiet_hours    text NOT NULL CHECK (in_quiet_hours IN ('defer', 'drop')),
    database_minutes  integer NOT NULL CHECK (database_minutes >= 0),
    extension_minutes integer NOT NULL CHECK (extension_minutes >= 0),
    zero_digests_max  integer CHECK (zero_digests_max >= 1),
    updated_at        timestamptz NOT NULL
);

-- Who was told what about something of the marketplace, as the source calls it: what notify did.
CREATE VIEW marketplace.notification_log WITH (security_invoker = true) AS
SELECT d.id, d.tenant AS tenant_id, d.notification_id, d.recipient_id, n.template,
    split_part(n.subject, ':', 1) AS object_type, split_part(n.subject, ':', 2) AS object_id, d.channel, d.provider,
    d.address, d.state, d.reason, d.sent_at, d.created_at
FROM timebell_notify.deliveries d
JOIN timebell_notify.notifications n ON n.tenant = d.tenant AND n.id = d.notification_id
WHERE n.subject LIKE 'staffing:%' OR n.subject LIKE 'time_log:%' OR n.subject LIKE 'saved_search:%'
    OR n.subject LIKE 'saved_searches:%';
GRANT SELECT ON marketplace.notification_log TO {app_role}, {api_role}, {read_role};

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['saved_searches', 'search_alerts', 'alert_skips', 'digest_cycles', 'search_settings'] LOOP
        place := 'marketplace.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON marketplace.saved_searches, marketplace.search_alerts TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON marketplace.alert_skips TO {app_role}, {api_role};
GRANT SELECT, INSERT ON marketplace.digest_cycles TO {app_role}, {api_role};
GRANT SELECT, INSERT, UPDATE ON marketplace.search_settings TO {app_role}, {api_role};
GRANT SELECT ON marketplace.saved_searches, marketplace.search_alerts, marketplace.alert_skips, marketplace.digest_cycles,
    marketplace.search_settings TO {read_role};
