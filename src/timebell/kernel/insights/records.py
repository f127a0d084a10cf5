"""Records that `Insights` answers with: frozen, of plain fields, fit for JSON and for a table alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from timebell.kernel.models import JobState

ListedState = JobState | Literal["unfinished", "finished"]
Accuracy = Literal["exact", "at_least", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """How much lies in one queue.

    `due_count` waits to be started, `started_count` runs, `parked_count` is due but held back by a
    pause; `is_at_least` says that these three were counted only up to the bound.
    `future_count` is not due yet, and `future_accuracy` says how far to trust it. Among these are the `retrying_count`
    that were due before and are tried again within two minutes; where much else is due by then, at least so many.
    `lateness_seconds` is how long the job that has been due longest has waited, since `oldest_due_at`.
    """

    queue: str
    due_count: int
    started_count: int
    parked_count: int
    is_at_least: bool
    future_count: int
    future_accuracy: Accuracy
    oldest_due_at: datetime | None
    lateness_seconds: float
    retrying_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessSummary:
    """How late the newest first attempts began, in seconds after `due_at`. No sample, no figures."""

    minutes: int
    queue: str | None
    sample_count: int
    p50_seconds: float | None
    p99_seconds: float | None
    seconds_max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteCount:
    """What became of jobs in one minute. `is_at_least` says that the minute was read in part only."""

    minute_at: datetime
    done_count: int
    retried_count: int
    dead_count: int
    cancelled_count: int
    expired_count: int
    skipped_count: int
    is_at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """The dead jobs of one tenant that died of one cause. The words are those of the last that died."""

    tenant: str
    fingerprint: str | None
    kind: str
    error_class: str | None
    error: str | None
    reason: str | None
    job_count: int
    is_at_least: bool
    first_died_at: datetime
    last_died_at: datetime
    example_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadJob:
    """A job that was given up and waits for an operator."""

    id: UUID
    tenant: str
    kind: str
    queue: str
    subject: str | None
    key: str | None
    due_at: datetime
    expires_at: datetime | None
    created_at: datetime
    died_at: datetime
    attempt: int
    max_attempts: int | None
    crash_count: int
    reason: str | None
    error_class: str | None
    error: str | None
    fingerprint: str | None
    correlation_id: str | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One job in a list, finished or not. What is not known of a job in its state is None.

    `run_at` is the next try of an unfinished job. `reason` says why it ended as it did, or that it is parked. `error`
    is what the last failed attempt said, and where; also while the job waits for the next one.
    """

    id: UUID
    tenant: str
    kind: str
    queue: str
    state: JobState
    due_at: datetime
    attempt: int
    subject: str | None = None
    key: str | None = None
    step: str | None = None
    revision: int | None = None
    reason: str | None = None
    error_class: str | None = None
    error: str | None = None
    max_attempts: int | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    correlation_id: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """An event as it was recorded."""

    id: UUID
    name: str
    subject: str | None
    actor: str | None
    data: dict[str, Any]
    correlation_id: str | None
    occurred_at: datetime
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyEntry:
    """One thing that happened to a job. `details` holds what else is known, and nothing that is not."""

    at: datetime
    what: str
    reason: str | None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgendaLine:
    """The agenda that a job is a step of: planned under `planned_revision`, and at `revision` now."""

    subject: str
    step: str
    planned_revision: int | None
    revision: int | None
    anchor: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """Everything known of one job, in order. `is_cut` says that there was more, and the newest is here."""

    job: JobLine
    agenda: AgendaLine | None
    entries: tuple[JourneyEntry, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseLine:
    """A pause of a queue; without a tenant it holds for everyone."""

    tenant: str | None
    reason: str | None
    actor: str | None
    paused_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A declared queue, its limits over all nodes together, and the pauses in force."""

    name: str
    rate_per_second: float | None
    burst: int
    concurrency: int | None
    pauses: tuple[PauseLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node that is alive, and how many of the slots it reads."""

    incarnation: int
    node: str
    version: str
    started_at: datetime
    lease_until: datetime
    slot_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLine:
    """A circuit breaker that is not closed. `node` is the one that probes, where that is known."""

    destination: str
    state: Literal["open", "half_open"]
    failure_count: int
    open_seconds: float
    open_until: datetime
    updated_at: datetime
    incarnation: int | None
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedSchedule:
    """A schedule that could not be planned and waits for somebody to edit or to resume it."""

    id: UUID
    tenant: str
    reason: str | None
    parked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TimezoneLine:
    """A timezone that occurrences were planned in, and the version of the data that their instants came from."""

    timezone: str
    version: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHolder:
    """The session whose snapshot keeps the oldest rows from being cleaned up, as far as this role may see."""

    pid: int
    role: str | None
    application_name: str | None
    state: str | None
    age_transactions: int
    age_seconds: float | None
    transaction_started_at: datetime | None
    query_started_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When some node last looked for what is due, and for what to plan, and how long the oldest due job has waited."""

    now: datetime
    passed_at: datetime | None
    planned_at: datetime | None
    lateness_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The few figures that tell whether what is owed is being paid."""

    oldest_due_at: datetime | None
    lateness_seconds: float
    node_count: int
    unowned_slot_count: int
    last_logged_at: datetime | None
    log_days_ahead: int
    unsealed_seconds: float
    oldest_snapshot: SnapshotHolder | None
