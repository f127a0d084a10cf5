"""Response bodies of the engine, as records. A field that a newer server adds is not in the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, NaiveDatetime


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class EnqueuedJob(Record):
    """The job that now stands for what was asked; `created` is false where its key had been used for it before."""

    id: UUID
    created: bool


class RefusedField(Record):
    pointer: str
    code: str
    message: str


class Refusal(Record):
    status: int
    code: str
    detail: str
    errors: list[RefusedField]


class JobResult(Record):
    """What became of one of many, by its place in the list: it has an `id`, or a `refusal`."""

    index: int
    id: UUID | None
    created: bool
    refusal: Refusal | None


class Alert(Record):
    """What needs a person. `closed_at` is there once it is as it should be again."""

    id: UUID
    rule: str
    severity: str
    app: str
    subject: str | None
    detail: str
    opened_at: AwareDatetime
    closed_at: AwareDatetime | None
    acknowledged_by: str | None


class Job(Record):
    """A job, finished or not. `run_at` is the next try."""

    id: UUID
    kind: str
    queue: str
    state: str
    due_at: AwareDatetime
    attempt: int
    subject: str | None
    key: str | None
    step: str | None
    revision: int | None
    reason: str | None
    error_class: str | None
    error: str | None
    max_attempts: int | None
    run_at: AwareDatetime | None
    expires_at: AwareDatetime | None
    created_at: AwareDatetime | None
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    cancel_requested_at: AwareDatetime | None
    correlation_id: str | None


class CancelledJob(Record):
    """The truth about one job: `cancelled`, `too_late`, `already_final`, or `undecided`: ask again."""

    id: UUID
    answer: str
    state: str | None


class Step(Record):
    key: str
    kind: str
    offset: timedelta
    payload: dict[str, Any]
    late: str
    grace: timedelta
    expires_after: timedelta | None
    guard: str | None
    queue: str | None
    priority: int
    urgency: str
    max_attempts: int | None
    ordered: bool
    once: bool
    cut_off: str = "run"


class Schedule(Record):
    """A schedule as it is; every occurrence before `planned_until` is planned."""

    id: UUID
    timezone: str
    start_local: NaiveDatetime
    recurrence: str | None
    until_local: NaiveDatetime | None
    last_local: NaiveDatetime | None
    exdates: list[NaiveDatetime]
    rdates: list[NaiveDatetime]
    on_gap: str
    on_fold: str
    catch_up: str
    catch_up_max: int
    grace: timedelta | None
    steps: list[Step]
    payload: dict[str, Any]
    owner: str | None
    subject: str | None
    correlation_id: str | None
    parent_id: UUID | None
    state: str
    state_reason: str | None
    revision: int
    planned_until: AwareDatetime
    timezone_version: str
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Occurrence(Record):
    """One occurrence. `original_local` names it, whatever becomes of it; `local` is where it is now."""

    id: UUID
    schedule_id: UUID
    original_local: NaiveDatetime
    fold: int
    local: NaiveDatetime
    occurs_at: AwareDatetime
    adjusted: str | None
    state: str
    revision: int
    timezone_version: str


class OccurrenceChange(Record):
    """What became of one occurrence to come, or of those of its steps that are named."""

    occurrence_id: UUID
    original_local: NaiveDatetime
    fold: int
    occurs_at: AwareDatetime
    was_at: AwareDatetime | None
    steps: list[str]


class Diff(Record):
    """What a change meant for what is to come; `too_late` is what was running already."""

    kept: list[OccurrenceChange]
    moved: list[OccurrenceChange]
    added: list[OccurrenceChange]
    withdrawn: list[OccurrenceChange]
    too_late: list[OccurrenceChange]


class OrphanedOverride(Record):
    original_local: NaiveDatetime
    fold: int
    new_local: NaiveDatetime | None


class ChangedSchedule(Schedule):
    """The schedule as it is now, and what that changed. `split_from` is the older part of one that was split."""

    diff: Diff
    first_occurrence: Occurrence | None
    orphaned_overrides: list[OrphanedOverride]
    unused_exdates: list[NaiveDatetime]
    warnings: list[str]
    split_from: Schedule | None


class PreviewLine(Record):
    at: AwareDatetime
    local: NaiveDatetime
    shown_local: NaiveDatetime
    offset_seconds: int
    adjusted: str | None
    note: str | None


class Preview(Record):
    """When a recurrence is due, what it is called in plain English, and what may surprise about it."""

    recurrence: str
    description: str
    timezone: str
    timezone_version: str
    start_local: NaiveDatetime
    occurrences: list[PreviewLine]
    has_more: bool
    warnings: list[str]


class QuietHours(Record):
    start: str
    end: str
    days: list[int]
    time_bound: str
    channels: list[str]


class Address(Record):
    id: UUID
    kind: str
    value: str
    verified_at: AwareDatetime | None
    gone_at: AwareDatetime | None


class OptOut(Record):
    topic: str | None
    channel: str | None


class Recipient(Record):
    """Somebody who can be told things. `email` and `phone` are the addresses that are used first."""

    id: UUID
    name: str
    external_id: str | None
    email: str | None
    phone: str | None
    timezone: str
    language: str
    channel_preference: str | None
    whatsapp_opt_in: bool
    quiet_hours: QuietHours | None
    addresses: list[Address]
    opt_outs: list[OptOut]
    revision: int
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Erasure(Record):
    """What was still owed to somebody who is erased: `withdrawn`, or `too_late` because it was being told just then;
    `undecided` is what another transaction held, and is one of the two."""

    id: UUID
    withdrawn: list[UUID]
    too_late: list[UUID]
    undecided: list[UUID] = []


class Token(Record):
    """A token, shown once and kept nowhere."""

    token: str
    recipient_id: UUID | None
    expires_at: AwareDatetime


class Advanced(Record):
    """What happened while the clock of a sandbox moved."""

    now: AwareDatetime
    ran: int
    sent: int
    failed: int
