-- phase: expand
-- Who waits for a provider with a rate. Nothing is leased ahead: what waits stands here, and is called when its turn has
-- come, so that what was withdrawn, expired or cancelled holds up nobody.

ALTER TABLE timebell_notify.provider_rates ADD COLUMN turn bigint NOT NULL DEFAULT 0;

-- `called_at`: its turn has come, and its job was told so.
CREATE TABLE timebell_notify.provider_waits (
    provider        text NOT NULL,
    notification_id uuid NOT NULL,
    tenant          text NOT NULL,
    lane            smallint NOT NULL,
    asked_at        timestamptz NOT NULL,
    called_at       timestamptz,
    PRIMARY KEY (provider, notification_id)
);
CREATE INDEX provider_waits_line ON timebell_notify.provider_waits (provider, tenant, lane, asked_at, notification_id)
    WHERE called_at IS NULL;
CREATE INDEX provider_waits_called ON timebell_notify.provider_waits (provider, called_at) WHERE called_at IS NOT NULL;

-- The number of the last turn that each tenant had, while anybody waits for the provider.
CREATE TABLE timebell_notify.provider_turns (
    provider  text NOT NULL,
    tenant    text NOT NULL,
    last_turn bigint NOT NULL,
    PRIMARY KEY (provider, tenant)
) WITH (fillfactor = 50);

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['timebell_notify.provider_waits', 'timebell_notify.provider_turns'] LOOP
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell_notify.provider_waits, timebell_notify.provider_turns TO {app_role};
GRANT SELECT ON timebell_notify.provider_waits, timebell_notify.provider_turns TO {api_role}, {read_role};
