"""Types of the keyword arguments of verbs: an editor completes them, and mypy refuses those that there are not.

The records say the same, check it and have its defaults; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from timebell.errors import InvalidInput
from timebell.kernel.models import Enqueue, OnConflict, Step, Urgency
from timebell.rules.agenda import CutOff, Late
from timebell.rules.localtime import OnFold, OnGap
from timebell.rules.planned import CatchUp

Payload = Mapping[str, Any]


class EnqueueOptions(TypedDict, total=False):
    """What `enqueue` takes besides a kind and a payload: the other fields of `Enqueue`."""

    due_at: datetime | None
    delay: timedelta | None
    subject: str | None
    key: str | None
    key_lifetime: timedelta | None
    queue: str | None
    expires_at: datetime | None
    priority: int
    urgency: Urgency
    max_attempts: int | None
    guard: str | None
    correlation_id: str | None
    on_conflict: OnConflict


class StepOptions(TypedDict, total=False):
    """What a step says that tells something: the fields of `Step`, but for those that what it tells decides."""

    offset: timedelta | None
    at: datetime | None
    late: Late
    grace: timedelta
    expires_after: timedelta | None
    expires_at: datetime | None
    guard: str | None
    queue: str | None
    priority: int
    max_attempts: int | None
    ordered: bool
    once: bool
    cut_off: CutOff


class NamedStepOptions(StepOptions):
    """The same with the key of the step."""

    key: str


class _ScheduleOptions(TypedDict, total=False):
    recurrence: str | None
    until_local: datetime | None
    exdates: Sequence[datetime]
    rdates: Sequence[datetime]
    on_gap: OnGap
    on_fold: OnFold
    catch_up: CatchUp
    catch_up_max: int
    grace: timedelta | None
    payload: Payload
    owner: str | None
    subject: str | None
    correlation_id: str | None


class NewScheduleOptions(_ScheduleOptions):
    """The terms of a new schedule: the fields of `ScheduleTerms`."""

    timezone: str
    start_local: datetime
    steps: Sequence[Step]


class ScheduleOptions(_ScheduleOptions, total=False):
    """The terms that are changed; the others stay."""

    timezone: str
    start_local: datetime
    steps: Sequence[Step]


def enqueue_of(kind: str, payload: Payload | None, options: EnqueueOptions) -> Enqueue:
    try:
        return Enqueue(kind=kind, payload={} if payload is None else payload, **options)
    except TypeError as error:
        raise InvalidInput(f"enqueue: {error}") from None
