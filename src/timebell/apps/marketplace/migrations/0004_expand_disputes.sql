-- phase: expand
-- How disputes are resolved: what each side proposes, what is frozen beside the disputed shift, and what nobody resolved in time.

-- By the side that proposes, `borrower` or `lender`: the two amounts, who proposed them, and when.
ALTER TABLE marketplace.disputes ADD COLUMN proposals jsonb NOT NULL DEFAULT '{}';
-- Those that the hourly sweep looks for.
CREATE INDEX idx_disputes_untimed ON marketplace.disputes (tenant, id)
    WHERE status = 'Open' AND dispute_option = 'A' AND timed_out_at IS NULL;

-- What is held by law may still be settled; nothing else is resolved twice.
CREATE FUNCTION marketplace.check_dispute_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.status = NEW.status OR OLD.status = 'Open'
        OR (OLD.status = 'Legal_Hold' AND NEW.status IN ('Settled', 'Resolved')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a dispute that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'dispute_status';
END $$;
REVOKE ALL ON FUNCTION marketplace.check_dispute_status() FROM PUBLIC;
CREATE TRIGGER dispute_status BEFORE UPDATE OF status ON marketplace.disputes
    FOR EACH ROW EXECUTE FUNCTION marketplace.check_dispute_status();

-- What is frozen for a dispute is the sum of its entries.
CREATE INDEX idx_ledger_entries_dispute ON marketplace.ledger_entries (tenant, dispute_id) WHERE dispute_id IS NOT NULL;

-- What is kept of the shifts that a dispute cancelled, by the policy of that day. It is frozen as far as somebody has paid, and
-- the rest when that arrives.
CREATE TABLE marketplace.dispute_penalties (
    tenant      text NOT NULL,
    dispute_id  uuid NOT NULL,
    time_log_id uuid NOT NULL,
    amount      bigint NOT NULL CHECK (amount > 0),
    PRIMARY KEY (tenant, time_log_id),
    FOREIGN KEY (tenant, dispute_id) REFERENCES marketplace.disputes (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id)
);
CREATE INDEX idx_dispute_penalties_dispute ON marketplace.dispute_penalties (tenant, dispute_id);

-- What a tenant decided otherwise than PenaltyPolicy does.
ALTER TABLE marketplace.marketplace_settings ADD COLUMN penalty_policy jsonb NOT NULL DEFAULT '{}';

ALTER TABLE marketplace.dispute_penalties ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON marketplace.dispute_penalties TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON marketplace.dispute_penalties FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON marketplace.dispute_penalties TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT ON marketplace.dispute_penalties TO {app_role}, {api_role};
GRANT SELECT ON marketplace.dispute_penalties TO {read_role};
