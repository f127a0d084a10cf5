-- phase: expand
-- Who lends whom to which project: companies, their members, projects, workers and bookings. People are notify's recipients,
-- and no foreign key leads there.

-- What the payment provider knows a company by: a borrower's customer and card on file, a lender's connected account.
CREATE TABLE marketplace.companies (
    tenant           text NOT NULL,
    id               uuid NOT NULL,
    name             text NOT NULL,
    type             text NOT NULL CHECK (type IN ('borrower', 'lender')),
    payment_customer text,
    payment_method   text,
    payment_account  text,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE marketplace.company_members (
    tenant       text NOT NULL,
    company_id   uuid NOT NULL,
    recipient_id uuid NOT NULL,
    role         text NOT NULL CHECK (role IN
        ('borrower_admin', 'borrower_manager', 'lender_admin', 'lender_manager', 'supervisor', 'worker')),
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, company_id, recipient_id, role),
    FOREIGN KEY (tenant, company_id) REFERENCES marketplace.companies (tenant, id)
);
CREATE INDEX idx_company_members_recipient ON marketplace.company_members (tenant, recipient_id, company_id);

-- The timezone of a project never changes: everything about its bookings is counted by it.
CREATE TABLE marketplace.projects (
    tenant     text NOT NULL,
    id         uuid NOT NULL,
    company_id uuid NOT NULL,
    name       text NOT NULL,
    timezone   text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, company_id) REFERENCES marketplace.companies (tenant, id)
);
CREATE INDEX idx_projects_company ON marketplace.projects (tenant, company_id, id);

-- A person is one worker, whoever lends them. The number is there since ranges of numbers can be compared by an exclusion
-- constraint without any extension, and ids cannot. The hourly rate is in minor units.
-- A zip is compared byte by byte, so that those with one prefix lie together.
CREATE TABLE marketplace.workers (
    tenant       text NOT NULL,
    id           uuid NOT NULL,
    recipient_id uuid NOT NULL,
    company_id   uuid NOT NULL,
    state        text NOT NULL DEFAULT 'Unlisted' CHECK (state IN ('Listed', 'Unlisted', 'Booked')),
    trade        text NOT NULL,
    zip          text COLLATE "C" NOT NULL,
    skills       text[] NOT NULL DEFAULT '{}',
    hourly_rate  bigint NOT NULL CHECK (hourly_rate >= 0),
    number       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, recipient_id),
    FOREIGN KEY (tenant, company_id) REFERENCES marketplace.companies (tenant, id)
);
CREATE INDEX idx_workers_search ON marketplace.workers (tenant, trade, zip, id) WHERE state = 'Listed';
CREATE INDEX idx_workers_company ON marketplace.workers (tenant, company_id, id);

-- The timezone is the project's, so that those of one zone are found without it. funded_period_end is the instant up to
-- which weeks are paid for, exclusive: a Monday, 00:00 there. scheduled_end_time is the wall time at which shifts end that
-- do not say it themselves. The rate is the worker's as it was at the checkout, an hour in minor units.
CREATE TABLE marketplace.staffing_bookings (
    tenant              text NOT NULL,
    id                  uuid NOT NULL,
    project_id          uuid NOT NULL,
    borrower_company_id uuid NOT NULL,
    lender_company_id   uuid NOT NULL,
    worker_id           uuid NOT NULL,
    supervisor_id       uuid NOT NULL,
    payment_type        text NOT NULL,
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    timezone            text NOT NULL,
    status              text NOT NULL DEFAULT 'Active'
        CHECK (status IN ('Active', 'Payment_Paused_Dispute', 'Suspended_Insurance', 'Cancelled', 'Completed')),
    start_date          date NOT NULL,
    end_date            date NOT NULL,
    funded_period_end   timestamptz NOT NULL,
    clock_in_hold       boolean NOT NULL DEFAULT false,
    scheduled_end_time  time,
    release_reason      text,
    rate                bigint NOT NULL CHECK (rate >= 0),
    revision            integer NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, project_id) REFERENCES marketplace.projects (tenant, id),
    FOREIGN KEY (tenant, borrower_company_id) REFERENCES marketplace.companies (tenant, id),
    FOREIGN KEY (tenant, lender_company_id) REFERENCES marketplace.companies (tenant, id),
    FOREIGN KEY (tenant, worker_id) REFERENCES marketplace.workers (tenant, id),
    CHECK (end_date >= start_date)
);
CREATE INDEX idx_staffing_bookings_project ON marketplace.staffing_bookings (tenant, project_id, id);
CREATE INDEX idx_staffing_bookings_worker ON marketplace.staffing_bookings (tenant, worker_id, id);
CREATE INDEX idx_staffing_bookings_supervisor ON marketplace.staffing_bookings (tenant, supervisor_id, id);
CREATE INDEX idx_staffing_bookings_borrower ON marketplace.staffing_bookings (tenant, borrower_company_id, id);
CREATE INDEX idx_staffing_bookings_lender ON marketplace.staffing_bookings (tenant, lender_company_id, id);
-- Those that the weekly cycle of a zone goes through.
CREATE INDEX idx_staffing_bookings_weekly ON marketplace.staffing_bookings (tenant, timezone, id)
    WHERE status = 'Active' AND payment_type = 'Weekly_Progress';

-- The edges between states, whoever writes: the rule in Python is asked first and gives better answers.
CREATE FUNCTION marketplace.check_booking_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.status = NEW.status OR (OLD.status, NEW.status) IN (
        ('Active', 'Payment_Paused_Dispute'), ('Active', 'Suspended_Insurance'), ('Active', 'Cancelled'),
        ('Active', 'Completed'), ('Payment_Paused_Dispute', 'Active'), ('Payment_Paused_Dispute', 'Suspended_Insurance'),
        ('Payment_Paused_Dispute', 'Cancelled'), ('Suspended_Insurance', 'Active'),
        ('Suspended_Insurance', 'Payment_Paused_Dispute'), ('Suspended_Insurance', 'Cancelled')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a booking that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'booking_status';
END $$;
REVOKE ALL ON FUNCTION marketplace.check_booking_status() FROM PUBLIC;
CREATE TRIGGER booking_status BEFORE UPDATE OF status ON marketplace.staffing_bookings
    FOR EACH ROW EXECUTE FUNCTION marketplace.check_booking_status();

-- When a worker is taken: from the first instant of a booking's first day to the last of its last, by the project's clock. The
-- constraint has the last word when several book at once. Touching ends do not overlap.
CREATE TABLE marketplace.taken (
    tenant     text NOT NULL,
    booking_id uuid NOT NULL,
    worker_id  uuid NOT NULL,
    number     bigint NOT NULL,
    during     tstzrange NOT NULL CHECK (NOT isempty(during) AND lower_inc(during) AND NOT upper_inc(during)),
    PRIMARY KEY (tenant, booking_id),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, worker_id) REFERENCES marketplace.workers (tenant, id),
    CONSTRAINT worker_taken EXCLUDE USING gist (int8range(number, number, '[]') WITH &&, during WITH &&)
);
-- Behind the wall between tenants ranges are compared after it, so that a worker's rows are found by the worker.
CREATE INDEX idx_taken_worker ON marketplace.taken (tenant, worker_id);

-- What a tenant decided; without a row the defaults of MarketplaceSettings hold.
CREATE TABLE marketplace.marketplace_settings (
    tenant         text PRIMARY KEY,
    payout_trigger text NOT NULL CHECK (payout_trigger IN ('verification', 'webhook')),
    max_extensions integer NOT NULL CHECK (max_extensions >= 0),
    updated_at     timestamptz NOT NULL
);

-- The audit trail of the marketplace, as the source calls it.
CREATE VIEW marketplace.audit_log WITH (security_invoker = true) AS
SELECT e.id, e.tenant AS tenant_id, e.name AS action, split_part(e.subject, ':', 1) AS object_type,
    split_part(e.subject, ':', 2) AS object_id, e.actor, e.data -> 'before' AS before, e.data -> 'after' AS after,
    e.data ->> 'reason' AS reason, e.data, e.correlation_id, e.occurred_at AS created_at
FROM timebell.events e
WHERE e.subject LIKE 'staffing:%' OR e.subject LIKE 'time_log:%' OR e.subject LIKE 'dispute:%'
    OR e.subject LIKE 'incident:%' OR e.subject LIKE 'payment:%';

-- The wall between tenants, as in front of the kernel's tables.
DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['companies', 'company_members', 'projects', 'workers', 'staffing_bookings', 'taken',
        'marketplace_settings'] LOOP
        place := 'marketplace.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE ON marketplace.companies, marketplace.workers, marketplace.staffing_bookings,
    marketplace.marketplace_settings TO {app_role}, {api_role};
GRANT SELECT, INSERT ON marketplace.projects TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON marketplace.company_members TO {app_role}, {api_role};
GRANT SELECT, INSERT, UPDATE, DELETE ON marketplace.taken TO {app_role}, {api_role};
GRANT SELECT ON marketplace.audit_log TO {app_role}, {api_role};
GRANT SELECT ON marketplace.companies, marketplace.company_members, marketplace.projects, marketplace.workers,
    marketplace.staffing_bookings, marketplace.taken, marketplace.marketplace_settings, marketplace.audit_log
    TO {read_role};
-- Whoever backs up reads how far the numbers have come.
GRANT SELECT ON SEQUENCE marketplace.workers_number_seq TO {read_role};
