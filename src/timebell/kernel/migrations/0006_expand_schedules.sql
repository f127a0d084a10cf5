-- phase: expand
-- Intents in time: schedules, their occurrences within the horizon, and what was changed about single ones.

-- start_local, until_local and the dates are wall times of the timezone; no instant is computed from them in SQL.
-- last_local is where COUNT, UNTIL or until_local ends the series, whichever is the earliest. planned_until is the
-- planner's cursor: every occurrence up to it has a row. plan_at is when the planner must look again. Up to settled_until
-- it has looked for occurrences that nobody paid in time.
CREATE TABLE timebell.schedules (
    id              uuid PRIMARY KEY,
    tenant          text NOT NULL,
    owner           text,
    subject         text,
    recurrence      text,
    timezone        text NOT NULL,
    start_local     timestamp NOT NULL,
    until_local     timestamp,
    last_local      timestamp,
    exdates         timestamp[] NOT NULL DEFAULT '{}',
    rdates          timestamp[] NOT NULL DEFAULT '{}',
    on_gap          text NOT NULL DEFAULT 'shift' CHECK (on_gap IN ('shift', 'skip')),
    on_fold         text NOT NULL DEFAULT 'first' CHECK (on_fold IN ('first', 'second')),
    catch_up        text NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('latest', 'skip', 'all')),
    catch_up_max    integer NOT NULL DEFAULT 100 CHECK (catch_up_max >= 1),
    grace_seconds   double precision CHECK (grace_seconds >= 0),
    steps           jsonb NOT NULL,
    lead_seconds    double precision NOT NULL DEFAULT 0 CHECK (lead_seconds >= 0),
    payload         jsonb NOT NULL DEFAULT '{}',
    revision        integer NOT NULL DEFAULT 1,
    parent_id       uuid,
    state           text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'parked', 'ended')),
    state_reason    text,
    planned_until   timestamptz NOT NULL,
    plan_at         timestamptz,
    settled_until   timestamptz NOT NULL DEFAULT '-infinity',
    timezone_version text NOT NULL,
    correlation_id  text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CHECK (plan_at IS NULL OR state = 'active')
) WITH (fillfactor = 80);
CREATE INDEX schedules_plan ON timebell.schedules (plan_at, id) WHERE plan_at IS NOT NULL;
CREATE INDEX schedules_tenant ON timebell.schedules (tenant, id);
CREATE INDEX schedules_owner ON timebell.schedules (tenant, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX schedules_subject ON timebell.schedules (tenant, subject, id) WHERE subject IS NOT NULL;
CREATE INDEX schedules_timezone ON timebell.schedules (timezone, id);
CREATE INDEX schedules_parked ON timebell.schedules (updated_at, id) WHERE state = 'parked';

-- An occurrence is known by the wall time that the recurrence gave it, in the second pass of a fold with fold = 1;
-- where it was moved to, and when that is, may change. Its agenda's subject is 'occurrence:' and its id.
CREATE TABLE timebell.occurrences (
    schedule_id      uuid NOT NULL,
    original_local   timestamp NOT NULL,
    fold             smallint NOT NULL DEFAULT 0,
    id               uuid NOT NULL,
    tenant           text NOT NULL,
    local            timestamp NOT NULL,
    occurs_at        timestamptz NOT NULL,
    adjusted         text CHECK (adjusted IN ('gap', 'fold')),
    state            text NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'skipped', 'missed')),
    revision         integer NOT NULL,
    timezone_version text NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, original_local, fold)
);
CREATE UNIQUE INDEX occurrences_id ON timebell.occurrences (id);
CREATE INDEX occurrences_of_schedule ON timebell.occurrences (schedule_id, occurs_at, id);
CREATE INDEX occurrences_of_tenant ON timebell.occurrences (tenant, occurs_at, id);

-- What somebody changed about one occurrence: it is moved, or skipped where new_local is NULL.
CREATE TABLE timebell.occurrence_overrides (
    schedule_id    uuid NOT NULL,
    original_local timestamp NOT NULL,
    fold           smallint NOT NULL DEFAULT 0,
    new_local      timestamp,
    payload        jsonb,
    actor          text,
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, original_local, fold)
);

-- The data of a timezone. version is the newest that anybody has brought, and whoever has older data does not plan;
-- sha256 is of the data that the plans stand on, or are being brought to.
CREATE TABLE timebell.timezones (
    timezone   text PRIMARY KEY,
    version    text NOT NULL,
    sha256     text NOT NULL,
    updated_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.schedules, timebell.occurrences, timebell.occurrence_overrides,
    timebell.timezones TO {app_role};
