-- phase: expand
-- Shifts, which the source calls time logs, from their planning to their approval, and what is disputed about them. What is
-- owed about a shift is the kernel's, under the subject time_log:{id}.

-- scheduled_* is what was booked; work_* is what was worked, as the worker or somebody who corrected it says; clock_out_time
-- is when it was submitted or forced, from which the hours until its approval count, and draft_end only what a draft holds.
-- shift_date and shift_start_time are the start by the project's clock, for those who ask as the source does. end_stated_at
-- is when it was last said when the shift ends, of one that is worked: nobody is reminded of an end that had passed by then.
CREATE TABLE marketplace.time_log (
    tenant              text NOT NULL,
    id                  uuid NOT NULL,
    booking_id          uuid NOT NULL,
    worker_id           uuid NOT NULL,
    shift_date          date NOT NULL,
    shift_start_time    time NOT NULL,
    scheduled_start     timestamptz NOT NULL,
    scheduled_end       timestamptz,
    end_stated_at       timestamptz,
    clock_in_time       timestamptz,
    draft_end           timestamptz,
    clock_out_time      timestamptz,
    work_start          timestamptz,
    work_end            timestamptz,
    worked_minutes      integer CHECK (worked_minutes >= 0),
    status              text NOT NULL DEFAULT 'Scheduled' CHECK (status IN
        ('Scheduled', 'Working', 'Draft', 'Pending_Verification', 'Verified', 'Disputed', 'Cancelled')),
    cancel_reason       text,
    auto_approval_time  timestamptz,
    extensions          integer NOT NULL DEFAULT 0 CHECK (extensions >= 0),
    reminder_5m_job_id  uuid,
    reminder_30m_job_id uuid,
    amount              bigint NOT NULL CHECK (amount >= 0),
    verified_at         timestamptz,
    verified_by         text,
    revision            integer NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, worker_id) REFERENCES marketplace.workers (tenant, id),
    CHECK (scheduled_end > scheduled_start),
    CHECK (work_end >= work_start),
    CHECK ((clock_out_time IS NULL) = (auto_approval_time IS NULL)),
    CHECK (clock_in_time IS NOT NULL OR status IN ('Scheduled', 'Cancelled')),
    CHECK ((clock_in_time IS NULL) = (end_stated_at IS NULL)),
    CHECK (clock_out_time IS NOT NULL OR status NOT IN ('Pending_Verification', 'Verified', 'Disputed')),
    CHECK ((verified_at IS NULL) = (verified_by IS NULL)),
    CHECK ((verified_at IS NOT NULL) = (status = 'Verified'))
);
CREATE INDEX idx_time_log_booking_status ON marketplace.time_log (tenant, booking_id, status, clock_out_time);
CREATE INDEX idx_time_log_booking ON marketplace.time_log (tenant, booking_id, scheduled_start, id);
CREATE INDEX idx_time_log_approval ON marketplace.time_log (status, auto_approval_time) WHERE status = 'Pending_Verification';
-- Those about which something is owed: whoever looks for what was lost goes through them.
CREATE INDEX idx_time_log_open ON marketplace.time_log (tenant, id)
    WHERE status IN ('Working', 'Draft', 'Pending_Verification');

CREATE FUNCTION marketplace.check_time_log_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.status = NEW.status OR (OLD.status, NEW.status) IN (
        ('Scheduled', 'Working'), ('Scheduled', 'Cancelled'), ('Working', 'Draft'), ('Working', 'Pending_Verification'),
        ('Draft', 'Pending_Verification'), ('Pending_Verification', 'Verified'), ('Pending_Verification', 'Disputed'),
        ('Disputed', 'Verified')) THEN
        RETURN NEW;
    END IF;
    -- Only what nobody but the clock approved, for a dispute that was there in time.
    IF (OLD.status, NEW.status) = ('Verified', 'Disputed') AND OLD.verified_by = 'auto' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a time log that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'time_log_status';
END $$;
REVOKE ALL ON FUNCTION marketplace.check_time_log_status() FROM PUBLIC;
CREATE TRIGGER time_log_status BEFORE UPDATE OF status ON marketplace.time_log
    FOR EACH ROW EXECUTE FUNCTION marketplace.check_time_log_status();

CREATE TABLE marketplace.disputes (
    tenant                  text NOT NULL,
    id                      uuid NOT NULL,
    booking_id              uuid NOT NULL,
    time_log_id             uuid NOT NULL,
    dispute_option          text NOT NULL CHECK (dispute_option IN ('A', 'B')),
    status                  text NOT NULL DEFAULT 'Open' CHECK (status IN ('Open', 'Settled', 'Resolved', 'Legal_Hold')),
    reason                  text NOT NULL,
    filed_by                text NOT NULL,
    dispute_filed_at        timestamptz NOT NULL,
    timeout_expiration_time timestamptz NOT NULL,
    timed_out_at            timestamptz,
    resolved_at             timestamptz,
    resolved_by             text,
    settlement              jsonb,
    created_at              timestamptz NOT NULL,
    updated_at              timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id),
    CHECK ((status = 'Open') = (resolved_at IS NULL))
);
CREATE INDEX idx_disputes_booking_status ON marketplace.disputes (tenant, booking_id, status, dispute_filed_at);
CREATE INDEX idx_disputes_filed_by ON marketplace.disputes (tenant, filed_by, id);
CREATE INDEX idx_disputes_timeout ON marketplace.disputes (status, dispute_filed_at) WHERE status = 'Open';
CREATE UNIQUE INDEX idx_disputes_open_once ON marketplace.disputes (tenant, time_log_id) WHERE status = 'Open';

CREATE TABLE marketplace.incident_reports (
    tenant         text NOT NULL,
    id             uuid NOT NULL,
    booking_id     uuid NOT NULL,
    time_log_id    uuid NOT NULL,
    dispute_option text NOT NULL CHECK (dispute_option IN ('A', 'B')),
    status         text NOT NULL DEFAULT 'Pending' CHECK (status IN ('Pending', 'Closed')),
    description    text NOT NULL,
    reported_by    text NOT NULL,
    reported_at    timestamptz NOT NULL,
    closed_at      timestamptz,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id)
);
CREATE INDEX idx_incident_reports_booking ON marketplace.incident_reports (tenant, booking_id, status);
CREATE INDEX idx_incident_reports_reported_by ON marketplace.incident_reports (tenant, reported_by, id);

-- The job by which a tenant's shifts are looked through every hour. It is there from the first clock-in on.
CREATE TABLE marketplace.sweeps (
    tenant text PRIMARY KEY,
    job_id uuid NOT NULL
);

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['time_log', 'disputes', 'incident_reports', 'sweeps'] LOOP
        place := 'marketplace.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE ON marketplace.time_log, marketplace.disputes, marketplace.incident_reports, marketplace.sweeps
    TO {app_role}, {api_role};
GRANT SELECT ON marketplace.time_log, marketplace.disputes, marketplace.incident_reports, marketplace.sweeps
    TO {read_role};
