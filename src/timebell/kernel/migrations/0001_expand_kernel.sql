-- phase: expand
-- What is owed: jobs and their keys, agendas, events, the log of what became of each job, and who pays.

-- A queue is declared by an app; a job can only be put into a queue that exists.
CREATE TABLE timebell.queues (
    name            text PRIMARY KEY,
    rate_per_second double precision CHECK (rate_per_second > 0),
    burst           integer NOT NULL DEFAULT 1 CHECK (burst >= 1),
    concurrency     integer CHECK (concurrency >= 1),
    declared_at     timestamptz NOT NULL DEFAULT now()
);

-- tenant '' pauses the queue for everybody.
CREATE TABLE timebell.queue_pauses (
    queue     text NOT NULL,
    tenant    text NOT NULL DEFAULT '',
    reason    text,
    actor     text,
    paused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, tenant)
);

-- A kind is declared by an app; the SQL functions check against it what Python checks against the registry.
CREATE TABLE timebell.kinds (
    kind              text PRIMARY KEY,
    queue             text NOT NULL,
    mode              text NOT NULL CHECK (mode IN ('plain', 'transactional', 'external')),
    payload_bytes_max integer NOT NULL,
    declared_at       timestamptz NOT NULL DEFAULT now()
);

-- Unfinished jobs only: inserted, then deleted. due_at is the planned instant and never changes except by a
-- move; run_at is the next try and is what the index reads. The row's version is the arbiter of every write.
CREATE TABLE timebell.jobs (
    id                  uuid PRIMARY KEY,
    tenant              text NOT NULL,
    queue               text NOT NULL,
    kind                text NOT NULL,
    subject             text,
    key                 text,
    slot                smallint NOT NULL GENERATED ALWAYS AS (
        (hashtextextended(tenant || chr(31) || coalesce(subject, id::text), 0) & 255)::smallint
    ) STORED,
    lane                smallint NOT NULL DEFAULT 1,
    run_at              timestamptz NOT NULL,
    due_at              timestamptz NOT NULL,
    expires_at          timestamptz,
    version             integer NOT NULL DEFAULT 1,
    attempt             integer NOT NULL DEFAULT 0,
    max_attempts        integer,
    crash_count         smallint NOT NULL DEFAULT 0,
    priority            smallint NOT NULL DEFAULT 0,
    urgency             text NOT NULL DEFAULT 'normal',
    started_by          bigint,
    started_at          timestamptz,
    cancel_requested_at timestamptz,
    step                text,
    revision            integer,
    step_order          integer,
    guard               text,
    payload             jsonb NOT NULL,
    cursor              jsonb,
    correlation_id      text,
    created_at          timestamptz NOT NULL DEFAULT now()
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 500000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 250000
);
CREATE INDEX jobs_due ON timebell.jobs (slot, lane, run_at, id);
CREATE INDEX jobs_subject ON timebell.jobs (tenant, subject, id) WHERE subject IS NOT NULL;

-- The caller's own name for a job. Not partitioned: a key is unique over all days. A key with a lifetime
-- outlives its job and lapses at expires_at.
CREATE TABLE timebell.job_keys (
    tenant           text NOT NULL,
    kind             text NOT NULL,
    key              text NOT NULL,
    job_id           uuid NOT NULL,
    fingerprint      text NOT NULL,
    lifetime_seconds double precision,
    expires_at       timestamptz,
    PRIMARY KEY (tenant, kind, key)
);
CREATE INDEX job_keys_expiry ON timebell.job_keys (expires_at) WHERE expires_at IS NOT NULL;

-- What became of each attempt, append only, a partition a day of real time, pruned by dropping partitions.
-- state is the job's state afterwards: pending (tried again later), done, cancelled, dead, skipped, expired.
CREATE TABLE timebell.job_log (
    logged_at      timestamptz NOT NULL DEFAULT now(),
    id             uuid NOT NULL,
    tenant         text NOT NULL,
    queue          text NOT NULL,
    kind           text NOT NULL,
    subject        text,
    key            text,
    step           text,
    version        integer NOT NULL,
    attempt        integer NOT NULL,
    state          text NOT NULL,
    reason         text,
    error_class    text,
    error          text,
    fingerprint    text,
    due_at         timestamptz NOT NULL,
    started_at     timestamptz,
    finished_at    timestamptz NOT NULL,
    node           bigint,
    actor          text,
    correlation_id text,
    payload        jsonb
) PARTITION BY RANGE (logged_at);
CREATE INDEX job_log_id ON timebell.job_log (id);
CREATE INDEX job_log_subject ON timebell.job_log (tenant, subject, logged_at) WHERE subject IS NOT NULL;

-- Dead jobs wait here for an operator, whole, so that nothing is needed from elsewhere to revive them.
CREATE TABLE timebell.dead_jobs (
    id             uuid PRIMARY KEY,
    tenant         text NOT NULL,
    queue          text NOT NULL,
    kind           text NOT NULL,
    subject        text,
    key            text,
    due_at         timestamptz NOT NULL,
    expires_at     timestamptz,
    version        integer NOT NULL,
    attempt        integer NOT NULL,
    max_attempts   integer,
    crash_count    smallint NOT NULL,
    priority       smallint NOT NULL,
    urgency        text NOT NULL,
    guard          text,
    payload        jsonb NOT NULL,
    cursor         jsonb,
    correlation_id text,
    created_at     timestamptz NOT NULL,
    reason         text,
    error_class    text,
    error          text,
    fingerprint    text,
    died_at        timestamptz NOT NULL
);
CREATE INDEX dead_jobs_tenant ON timebell.dead_jobs (tenant, died_at, id);
CREATE INDEX dead_jobs_fingerprint ON timebell.dead_jobs (tenant, fingerprint, died_at, id);

-- One row a subject: locked first by whoever changes what is owed about it.
CREATE TABLE timebell.agendas (
    tenant     text NOT NULL,
    subject    text NOT NULL,
    revision   integer NOT NULL DEFAULT 1,
    anchor     timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, subject)
);
CREATE INDEX agendas_updated ON timebell.agendas (updated_at);

-- Steps that came to an end, remembered apart from the log so that pruning it never fires a step again.
CREATE TABLE timebell.agenda_done (
    tenant      text NOT NULL,
    subject     text NOT NULL,
    step        text NOT NULL,
    due_at      timestamptz NOT NULL,
    state       text NOT NULL,
    job_id      uuid,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, subject, step, due_at)
);

-- Past-tense facts with an actor: the audit trail. The application may add and read, never change.
CREATE TABLE timebell.events (
    id             uuid PRIMARY KEY,
    tenant         text NOT NULL,
    name           text NOT NULL,
    subject        text,
    actor          text,
    data           jsonb NOT NULL,
    correlation_id text,
    occurred_at    timestamptz NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX events_subject ON timebell.events (tenant, subject, id);
CREATE INDEX events_correlation ON timebell.events (tenant, correlation_id, id) WHERE correlation_id IS NOT NULL;

-- A node's life is one row; its incarnation is new each time it starts or finds its lease lapsed.
CREATE SEQUENCE timebell.incarnations;
CREATE TABLE timebell.nodes (
    incarnation bigint PRIMARY KEY,
    node        text NOT NULL,
    version     text NOT NULL,
    started_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 20);

-- Who reads which slot, 256 of them for ever. The epoch rises with every change of owner; an owner that is
-- no longer among the nodes left without releasing.
CREATE TABLE timebell.slots (
    slot  smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 255),
    owner bigint,
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO timebell.slots (slot) SELECT generate_series(0, 255);

-- One row a rate limit: the next free start, whoever asks.
CREATE TABLE timebell.queue_rates (
    queue        text PRIMARY KEY,
    next_free_at timestamptz NOT NULL
) WITH (fillfactor = 20);

-- How many jobs of a limited queue each node may run at once; a permit dies with its node.
CREATE TABLE timebell.permits (
    queue       text NOT NULL,
    incarnation bigint NOT NULL,
    held        integer NOT NULL CHECK (held >= 0),
    wanted      integer NOT NULL CHECK (wanted >= 0),
    PRIMARY KEY (queue, incarnation)
) WITH (fillfactor = 50);

-- The circuit breakers that are not closed.
CREATE TABLE timebell.breakers (
    destination   text PRIMARY KEY,
    failure_count integer NOT NULL,
    open_seconds  double precision NOT NULL,
    open_until    timestamptz NOT NULL,
    probed_by     bigint,
    updated_at    timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.queues, timebell.queue_pauses, timebell.kinds, timebell.jobs,
    timebell.job_keys, timebell.dead_jobs, timebell.agendas, timebell.agenda_done, timebell.nodes,
    timebell.queue_rates, timebell.permits, timebell.breakers TO {app_role};
GRANT SELECT, INSERT ON timebell.job_log, timebell.events TO {app_role};
GRANT SELECT, UPDATE ON timebell.slots TO {app_role};
GRANT USAGE ON SEQUENCE timebell.incarnations TO {app_role};
