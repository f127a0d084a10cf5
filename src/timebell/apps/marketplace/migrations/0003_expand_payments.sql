-- phase: expand
-- What is charged for a week, what a payment provider said about it, and the ledger in which every cent is somewhere.

-- The schedules of one zone: they are made with its first project, and there is one set for all its bookings.
CREATE TABLE marketplace.weekly_cycles (
    tenant              text NOT NULL,
    timezone            text NOT NULL,
    payment_schedule_id uuid NOT NULL,
    warning_schedule_id uuid NOT NULL,
    cutoff_schedule_id  uuid NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant, timezone)
);

-- One week of a booking. The idempotency key is what the provider is given, the same for every call of one attempt.
CREATE TABLE marketplace.pending_payments (
    tenant             text NOT NULL,
    id                 uuid NOT NULL,
    booking_id         uuid NOT NULL,
    period_start       timestamptz NOT NULL,
    period_end         timestamptz NOT NULL,
    amount             bigint NOT NULL CHECK (amount > 0),
    currency           text NOT NULL,
    status             text NOT NULL DEFAULT 'Pending'
        CHECK (status IN ('Pending', 'Succeeded', 'Failed', 'Cancelled', 'Refunded')),
    provider           text NOT NULL,
    provider_intent_id text,
    idempotency_key    text NOT NULL,
    attempt            integer NOT NULL CHECK (attempt >= 1),
    failure            text,
    correlation_id     text,
    settled_at         timestamptz,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, idempotency_key),
    UNIQUE (tenant, booking_id, period_start, attempt),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    CHECK (period_end > period_start),
    CHECK ((status = 'Pending') = (settled_at IS NULL))
);
-- One charge for each booking and period, whatever is repeated. One that was given back does not stand in the way of another.
CREATE UNIQUE INDEX idx_pending_payments_once ON marketplace.pending_payments (tenant, booking_id, period_start)
    WHERE status IN ('Pending', 'Succeeded');
CREATE INDEX idx_pending_payments_status ON marketplace.pending_payments (status, created_at);
CREATE INDEX idx_pending_payments_tenant ON marketplace.pending_payments (tenant, id);

-- What a payment pays for.
CREATE TABLE marketplace.payment_lines (
    tenant      text NOT NULL,
    payment_id  uuid NOT NULL,
    time_log_id uuid NOT NULL,
    amount      bigint NOT NULL CHECK (amount > 0),
    PRIMARY KEY (tenant, payment_id, time_log_id),
    FOREIGN KEY (tenant, payment_id) REFERENCES marketplace.pending_payments (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id)
);
CREATE INDEX idx_payment_lines_time_log ON marketplace.payment_lines (tenant, time_log_id);

-- The edges between states of a payment: a success that comes after everything else is still a success, and is paid back.
CREATE FUNCTION marketplace.check_payment_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.status = NEW.status OR (OLD.status, NEW.status) IN (
        ('Pending', 'Succeeded'), ('Pending', 'Failed'), ('Pending', 'Cancelled'), ('Succeeded', 'Refunded'),
        ('Cancelled', 'Refunded'), ('Failed', 'Refunded')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a payment that is % does not become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_status';
END $$;
REVOKE ALL ON FUNCTION marketplace.check_payment_status() FROM PUBLIC;
CREATE TRIGGER payment_status BEFORE UPDATE OF status ON marketplace.pending_payments
    FOR EACH ROW EXECUTE FUNCTION marketplace.check_payment_status();

-- What the provider tells afterwards, by its own event id, so that what comes twice is applied once.
CREATE TABLE marketplace.payment_events (
    tenant            text NOT NULL,
    provider          text NOT NULL,
    provider_event_id text NOT NULL,
    payment_id        uuid,
    report            jsonb NOT NULL,
    received_at       timestamptz NOT NULL,
    applied_at        timestamptz,
    answer            text,
    PRIMARY KEY (tenant, provider, provider_event_id)
);
CREATE INDEX idx_payment_events_received ON marketplace.payment_events (received_at);
CREATE INDEX idx_payment_events_payment ON marketplace.payment_events (tenant, payment_id, received_at);

-- A double entry: the amount leaves one place of the booking and arrives at another. `card` and `lender` are outside,
-- `clearing` is what was charged and is not yet held for a shift, and is empty at every commit.
CREATE TABLE marketplace.ledger_entries (
    tenant       text NOT NULL,
    id           uuid NOT NULL,
    booking_id   uuid NOT NULL,
    at           timestamptz NOT NULL,
    type         text NOT NULL
        CHECK (type IN ('charge', 'hold', 'release', 'refund', 'freeze', 'unfreeze', 'penalty')),
    from_place   text NOT NULL,
    to_place     text NOT NULL,
    amount       bigint NOT NULL CHECK (amount > 0),
    currency     text NOT NULL,
    time_log_id  uuid,
    dispute_id   uuid,
    payment_id   uuid NOT NULL,
    provider_ref text,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id),
    FOREIGN KEY (tenant, payment_id) REFERENCES marketplace.pending_payments (tenant, id),
    CONSTRAINT ledger_movement CHECK ((type, from_place, to_place) IN (
        ('charge', 'card', 'clearing'), ('hold', 'clearing', 'held'), ('release', 'held', 'lender'),
        ('release', 'frozen', 'lender'), ('refund', 'clearing', 'card'), ('refund', 'held', 'card'),
        ('refund', 'frozen', 'card'), ('freeze', 'held', 'frozen'), ('unfreeze', 'frozen', 'held'),
        ('penalty', 'held', 'frozen'), ('penalty', 'held', 'lender'), ('penalty', 'frozen', 'lender'))),
    CHECK ((time_log_id IS NULL) = (from_place IN ('card', 'clearing') AND to_place IN ('card', 'clearing'))),
    -- What crosses the border is written when the provider has named it.
    CONSTRAINT ledger_confirmed
        CHECK (provider_ref IS NOT NULL OR (from_place <> 'card' AND to_place NOT IN ('card', 'lender')))
);
CREATE INDEX idx_ledger_entries_booking ON marketplace.ledger_entries (tenant, booking_id, at, id);
CREATE INDEX idx_ledger_entries_time_log ON marketplace.ledger_entries (tenant, time_log_id) WHERE time_log_id IS NOT NULL;
CREATE INDEX idx_ledger_entries_payment ON marketplace.ledger_entries (tenant, payment_id);
-- A payment is charged once, and a shift's amount is released once.
CREATE UNIQUE INDEX idx_ledger_entries_charge ON marketplace.ledger_entries (tenant, payment_id) WHERE type = 'charge';
CREATE UNIQUE INDEX idx_ledger_entries_release ON marketplace.ledger_entries (tenant, time_log_id) WHERE type = 'release';

-- What a shift has in escrow, from which payment it came, and what is about to leave. None of it is ever below what leaves,
-- no shift is held or paid out beside what was held for it before, and nothing leaves without having come.
CREATE FUNCTION marketplace.check_escrow(p_tenant text, p_time_log uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pots integer;
    least bigint;
    held bigint;
    leaving bigint;
BEGIN
    SELECT count(*) FILTER (WHERE p.held + p.frozen + p.released > 0), coalesce(min(least(p.held, p.frozen)), 0),
        coalesce(sum(p.held), 0)
    INTO pots, least, held
    FROM (SELECT coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'held'), 0)
            - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'held'), 0) AS held,
            coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'frozen'), 0)
            - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'frozen'), 0) AS frozen,
            coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'lender'), 0) AS released
        FROM marketplace.ledger_entries e WHERE e.tenant = p_tenant AND e.time_log_id = p_time_log
        GROUP BY e.payment_id) p;
    IF least < 0 THEN
        RAISE EXCEPTION 'more would leave the escrow of the time log % than is in it', p_time_log
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_escrow';
    END IF;
    IF pots > 1 THEN
        RAISE EXCEPTION 'the time log % would be paid for twice', p_time_log
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_paid_once';
    END IF;
    SELECT coalesce(sum(l.amount), 0) INTO leaving
    FROM marketplace.payout_lines l
    JOIN marketplace.payouts o ON o.tenant = p_tenant AND o.id = l.payout_id
    WHERE l.tenant = p_tenant AND l.time_log_id = p_time_log AND o.state IN ('pending', 'sending');
    IF leaving > held THEN
        RAISE EXCEPTION 'more is to leave for the time log % than is held for it', p_time_log
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_escrow';
    END IF;
END $$;
REVOKE ALL ON FUNCTION marketplace.check_escrow(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION marketplace.check_escrow(text, uuid) TO {app_role}, {api_role};

-- Asked at the commit, when all that belongs together has been written.
CREATE FUNCTION marketplace.check_ledger() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clearing bigint;
BEGIN
    IF NEW.currency <> (SELECT b.currency FROM marketplace.staffing_bookings b
        WHERE b.tenant = NEW.tenant AND b.id = NEW.booking_id) THEN
        RAISE EXCEPTION 'the booking % is not paid in %', NEW.booking_id, NEW.currency
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_currency';
    END IF;
    IF NOT EXISTS (SELECT FROM marketplace.pending_payments p
        WHERE p.tenant = NEW.tenant AND p.id = NEW.payment_id AND p.booking_id = NEW.booking_id
            AND (NEW.type <> 'charge' OR p.amount = NEW.amount)) THEN
        RAISE EXCEPTION 'the payment % is not that of the booking %, or another amount', NEW.payment_id, NEW.booking_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_payment';
    END IF;
    IF 'clearing' IN (NEW.from_place, NEW.to_place) THEN
        SELECT coalesce(sum(CASE WHEN e.to_place = 'clearing' THEN e.amount ELSE -e.amount END), 0) INTO clearing
        FROM marketplace.ledger_entries e
        WHERE e.tenant = NEW.tenant AND e.payment_id = NEW.payment_id AND 'clearing' IN (e.from_place, e.to_place);
        IF clearing <> 0 THEN
            RAISE EXCEPTION 'of what was charged by the payment %, % is nowhere', NEW.payment_id, clearing
                USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_clearing';
        END IF;
    END IF;
    IF NEW.time_log_id IS NOT NULL THEN
        IF NOT EXISTS (SELECT FROM marketplace.time_log t
            WHERE t.tenant = NEW.tenant AND t.id = NEW.time_log_id AND t.booking_id = NEW.booking_id) THEN
            RAISE EXCEPTION 'the time log % is not of the booking %', NEW.time_log_id, NEW.booking_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_time_log';
        END IF;
        PERFORM marketplace.check_escrow(NEW.tenant, NEW.time_log_id);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION marketplace.check_ledger() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER ledger_balance AFTER INSERT ON marketplace.ledger_entries
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION marketplace.check_ledger();

-- What is to leave for a lender, and what is to go back to a borrower. `sending` says that the provider may have been asked:
-- from then on it cannot be taken back. The ledger hears of it when the provider has answered. What the provider has refused
-- for certain is begun anew under another key; `attempt` counts that.
CREATE TABLE marketplace.payouts (
    tenant          text NOT NULL,
    id              uuid NOT NULL,
    booking_id      uuid NOT NULL,
    sort            text NOT NULL CHECK (sort IN ('transfer', 'refund')),
    payment_id      uuid NOT NULL,
    amount          bigint NOT NULL CHECK (amount > 0),
    currency        text NOT NULL,
    reason          text NOT NULL,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sending', 'sent', 'cancelled')),
    idempotency_key text NOT NULL,
    attempt         integer NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    provider_ref    text,
    correlation_id  text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, idempotency_key),
    FOREIGN KEY (tenant, booking_id) REFERENCES marketplace.staffing_bookings (tenant, id),
    FOREIGN KEY (tenant, payment_id) REFERENCES marketplace.pending_payments (tenant, id),
    CHECK ((state = 'sent') = (provider_ref IS NOT NULL))
);
CREATE INDEX idx_payouts_booking ON marketplace.payouts (tenant, booking_id, id);
CREATE INDEX idx_payouts_payment ON marketplace.payouts (tenant, payment_id);

-- Which shifts a payout is for. What a shift pays leaves once: the lines of a payout that was cancelled are deleted.
CREATE TABLE marketplace.payout_lines (
    tenant      text NOT NULL,
    payout_id   uuid NOT NULL,
    time_log_id uuid NOT NULL,
    sort        text NOT NULL CHECK (sort IN ('transfer', 'refund')),
    amount      bigint NOT NULL CHECK (amount > 0),
    PRIMARY KEY (tenant, payout_id, time_log_id),
    FOREIGN KEY (tenant, payout_id) REFERENCES marketplace.payouts (tenant, id),
    FOREIGN KEY (tenant, time_log_id) REFERENCES marketplace.time_log (tenant, id)
);
CREATE UNIQUE INDEX idx_payout_lines_once ON marketplace.payout_lines (tenant, time_log_id) WHERE sort = 'transfer';
CREATE INDEX idx_payout_lines_time_log ON marketplace.payout_lines (tenant, time_log_id);

CREATE FUNCTION marketplace.check_payout_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM marketplace.check_escrow(NEW.tenant, NEW.time_log_id);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION marketplace.check_payout_line() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER payout_escrow AFTER INSERT ON marketplace.payout_lines
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION marketplace.check_payout_line();

-- The payment provider for demonstrations and tests: what it was told to do, what it did, and every call of it.
CREATE TABLE marketplace.simulator_settings (
    tenant        text PRIMARY KEY,
    outcome       text NOT NULL CHECK (outcome IN ('succeed', 'decline', 'timeout', 'processing')),
    webhook_after interval NOT NULL,
    faults        jsonb NOT NULL DEFAULT '[]',
    updated_at    timestamptz NOT NULL
);

CREATE TABLE marketplace.simulator_movements (
    tenant      text NOT NULL,
    ref         text NOT NULL,
    call        text NOT NULL CHECK (call IN ('charge', 'refund', 'transfer')),
    key         text NOT NULL,
    fingerprint text NOT NULL,
    amount      bigint NOT NULL,
    currency    text NOT NULL,
    booking_id  uuid,
    payment_id  uuid,
    of_ref      text,
    state       text NOT NULL CHECK (state IN ('processing', 'succeeded', 'declined', 'cancelled')),
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, ref),
    UNIQUE (tenant, call, key)
);
CREATE INDEX idx_simulator_movements_of ON marketplace.simulator_movements (tenant, of_ref) WHERE of_ref IS NOT NULL;

CREATE TABLE marketplace.simulator_calls (
    tenant     text NOT NULL,
    id         uuid NOT NULL,
    at         timestamptz NOT NULL,
    call       text NOT NULL CHECK (call IN ('charge', 'lookup', 'cancel', 'refund', 'transfer')),
    key        text NOT NULL,
    amount     bigint,
    currency   text,
    booking_id uuid,
    outcome    text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX idx_simulator_calls_at ON marketplace.simulator_calls (at);
CREATE INDEX idx_simulator_calls_tenant ON marketplace.simulator_calls (tenant, at, id);

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['weekly_cycles', 'pending_payments', 'payment_lines', 'payment_events', 'ledger_entries',
        'payouts', 'payout_lines', 'simulator_settings', 'simulator_movements', 'simulator_calls'] LOOP
        place := 'marketplace.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

-- What was charged and where it went, nobody may change: only SELECT and INSERT are granted.
GRANT SELECT, INSERT ON marketplace.ledger_entries, marketplace.payment_lines, marketplace.weekly_cycles
    TO {app_role}, {api_role};
GRANT SELECT, INSERT, UPDATE ON marketplace.pending_payments, marketplace.payouts, marketplace.simulator_settings,
    marketplace.simulator_movements TO {app_role}, {api_role};
GRANT SELECT, INSERT, UPDATE, DELETE ON marketplace.payment_events TO {app_role}, {api_role};
GRANT SELECT, INSERT, DELETE ON marketplace.payout_lines, marketplace.simulator_calls TO {app_role}, {api_role};
GRANT SELECT ON marketplace.weekly_cycles, marketplace.pending_payments, marketplace.payment_lines,
    marketplace.payment_events, marketplace.ledger_entries, marketplace.payouts, marketplace.payout_lines,
    marketplace.simulator_settings, marketplace.simulator_movements, marketplace.simulator_calls TO {read_role};
