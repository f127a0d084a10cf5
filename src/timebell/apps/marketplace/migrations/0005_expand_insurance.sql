-- phase: expand
-- Insurances of companies, whom they were warned about, and which bookings one of them has stopped.

-- Valid through its date, which is one of UTC. A renewal keeps the row and changes the date; `replaced_by` is another of the
-- same type that came after this one had ended.
CREATE TABLE marketplace.insurance_policies (
    tenant          text NOT NULL,
    id              uuid NOT NULL,
    company_id      uuid NOT NULL,
    type            text NOT NULL,
    expiration_date date NOT NULL,
    is_active       boolean NOT NULL DEFAULT true,
    deactivated_at  timestamptz,
    replaced_by     uuid,
    revision        integer NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, company_id) REFERENCES marketplace.companies (tenant, id),
    FOREIGN KEY (tenant, replaced_by) REFERENCES marketplace.insurance_policies (tenant, id),
    CHECK (is_active = (deactivated_at IS NULL)),
    CHECK (replaced_by IS NULL OR NOT is_active)
);
CREATE INDEX idx_insurance_policies_company
    ON marketplace.insurance_policies (tenant, company_id, is_active, expiration_date);
CREATE INDEX idx_insurance_policies_list ON marketplace.insurance_policies (tenant, company_id, id);
-- Those that the daily run goes through, by the day on which they end; and the same of all tenants, for operators.
CREATE INDEX idx_insurance_policies_due ON marketplace.insurance_policies (tenant, expiration_date, id) WHERE is_active;
CREATE INDEX idx_insurance_policies_expiring ON marketplace.insurance_policies (expiration_date, tenant) WHERE is_active;

-- Who was warned of which date, so that nobody is twice, and a renewal is warned of anew.
CREATE TABLE marketplace.insurance_warnings (
    tenant          text NOT NULL,
    policy_id       uuid NOT NULL,
    expiration_date date NOT NULL,
    threshold       integer NOT NULL CHECK (threshold IN (14, 7)),
    recipient_id    uuid NOT NULL,
    channel         text NOT NULL CHECK (channel IN ('email', 'sms')),
    sent_at         timestamptz NOT NULL,
    PRIMARY KEY (tenant, policy_id, expiration_date, threshold, recipient_id, channel),
    FOREIGN KEY (tenant, policy_id) REFERENCES marketplace.insurance_policies (tenant, id)
);
CREATE INDEX idx_insurance_warnings_recipient ON marketplace.insurance_warnings (tenant, recipient_id, policy_id);
CREATE INDEX idx_insurance_warnings_date ON marketplace.insurance_warnings (expiration_date);

-- What nobody works in until a company has an insurance of that type again. Several may stop one booking; `ended_work` says
-- which of them was the first, of which people were told.
CREATE TABLE marketplace.insurance_stops (
    tenant     text NOT NULL,
    booking_id uuid NOT NULL,
    company_id uuid NOT NULL,
    type       text NOT NULL,
    policy_id  uuid NOT NULL,
    ended_work boolean NOT NULL,
    stopped_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, booking_id, company_id, type),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, policy_id) REFERENCES marketplace.insurance_policies (tenant, id)
);
CREATE INDEX idx_insurance_stops_company ON marketplace.insurance_stops (tenant, company_id, type, booking_id);
CREATE INDEX idx_insurance_stops_policy ON marketplace.insurance_stops (tenant, policy_id, booking_id);
CREATE INDEX idx_insurance_stops_at ON marketplace.insurance_stops (stopped_at);

-- The schedule by which a tenant's insurances are looked through every day. It is there from the first of them on.
CREATE TABLE marketplace.insurance_monitors (
    tenant      text PRIMARY KEY,
    schedule_id uuid NOT NULL,
    created_at  timestamptz NOT NULL
);

-- Whether nobody clocks in after a renewal until nothing is disputed any more.
ALTER TABLE marketplace.marketplace_settings ADD COLUMN hold_until_disputes_resolved boolean NOT NULL DEFAULT true;

CREATE OR REPLACE VIEW marketplace.audit_log WITH (security_invoker = true) AS
SELECT e.id, e.tenant AS tenant_id, e.name AS action, split_part(e.subject, ':', 1) AS object_type,
    split_part(e.subject, ':', 2) AS object_id, e.actor, e.data -> 'before' AS before, e.data -> 'after' AS after,
    e.data ->> 'reason' AS reason, e.data, e.correlation_id, e.occurred_at AS created_at
FROM timebell.events e
WHERE e.subject LIKE 'staffing:%' OR e.subject LIKE 'time_log:%' OR e.subject LIKE 'dispute:%'
    OR e.subject LIKE 'incident:%' OR e.subject LIKE 'payment:%' OR e.subject LIKE 'policy:%';

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['insurance_policies', 'insurance_warnings', 'insurance_stops', 'insurance_monitors'] LOOP
        place := 'marketplace.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE ON marketplace.insurance_policies TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON marketplace.insurance_warnings, marketplace.insurance_stops TO {app_role}, {api_role};
GRANT SELECT, INSERT ON marketplace.insurance_monitors TO {app_role}, {api_role};
GRANT SELECT ON marketplace.insurance_policies, marketplace.insurance_warnings, marketplace.insurance_stops,
    marketplace.insurance_monitors TO {read_role};
