"""The nouns of schedules, as frozen records that are checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from timebell.errors import InvalidInput
from timebell.kernel.models import Step, check_duration, check_name, check_whole
from timebell.kernel.records import quickly_made
from timebell.rules.localtime import NAME_CHARS_MAX, Adjusted, OnFold, OnGap, plain_local
from timebell.rules.planned import CatchUp, OccurrenceState, ScheduleFacts

ScheduleState = Literal["active", "paused", "parked", "ended"]
STATES: tuple[ScheduleState, ...] = ("active", "paused", "parked", "ended")

RECURRENCE_CHARS_MAX = 1_024
DATES_MAX = 1_000
CATCH_UP_MAX = 1_000
GRACE_MAX = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTerms:
    """What a caller may say about a schedule. Without a recurrence it is a one-off.

    `steps` is what each occurrence owes, at offsets from it; where there are none it is planned and nothing is run.
    `grace` is how late a step may be done; if it is not given, 15 minutes for `latest` and no limit for `all`. All
    `*_local` and the dates are wall times of the timezone.
    """

    timezone: str
    start_local: datetime
    steps: Sequence[Step]
    recurrence: str | None = None
    until_local: datetime | None = None
    exdates: Sequence[datetime] = ()
    rdates: Sequence[datetime] = ()
    on_gap: OnGap = "shift"
    on_fold: OnFold = "first"
    catch_up: CatchUp = "latest"
    catch_up_max: int = 100
    grace: timedelta | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    owner: str | None = None
    subject: str | None = None
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        check_name("timezone", self.timezone, longest=NAME_CHARS_MAX, required=True)
        check_name("owner", self.owner)
        check_name("subject", self.subject)
        check_name("correlation_id", self.correlation_id)
        check_name("recurrence", self.recurrence or None, longest=RECURRENCE_CHARS_MAX)
        check_whole("catch_up_max", self.catch_up_max, 1, CATCH_UP_MAX)
        check_duration("grace", self.grace)
        if self.grace is not None and not timedelta(0) <= self.grace <= GRACE_MAX:
            raise InvalidInput(f"must be 0 to {GRACE_MAX.days} days", field="grace")
        check_choice("on_gap", self.on_gap, ("shift", "skip"))
        check_choice("on_fold", self.on_fold, ("first", "second"))
        check_choice("catch_up", self.catch_up, ("latest", "skip", "all"))
        set_field = object.__setattr__
        set_field(self, "recurrence", self.recurrence or None)
        set_field(self, "start_local", checked_local("start_local", self.start_local))
        if self.until_local is not None:
            set_field(self, "until_local", checked_local("until_local", self.until_local))
        set_field(self, "exdates", _checked_dates("exdates", self.exdates))
        set_field(self, "rdates", _checked_dates("rdates", self.rdates))
        set_field(self, "steps", _checked_steps(self.steps))

    def facts(self, last_local: datetime | None) -> ScheduleFacts:
        return ScheduleFacts(
            recurrence=self.recurrence,
            timezone=self.timezone,
            start_local=self.start_local,
            until_local=self.until_local,
            last_local=last_local,
            exdates=tuple(self.exdates),
            rdates=tuple(self.rdates),
            on_gap=self.on_gap,
            on_fold=self.on_fold,
            catch_up=self.catch_up,
            catch_up_max=self.catch_up_max,
            grace=self.grace,
            offsets=tuple(step.offset or timedelta(0) for step in self.steps),
        )


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(ScheduleTerms):
    """A schedule as it is. `last_local` is the last wall time of a recurrence that ends.

    Every occurrence before `planned_until` is planned; the planner looks again at `plan_at`. `state_reason` says why
    it is not active.
    """

    id: UUID
    tenant: str
    last_local: datetime | None
    revision: int
    parent_id: UUID | None
    state: ScheduleState
    state_reason: str | None
    planned_until: datetime
    plan_at: datetime | None
    timezone_version: str
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        """It comes from its row, and its terms were checked before they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence that was planned. `original_local` names it, whatever becomes of it; `local` is where it is now.

    `fold` is 1 in the second pass of a fold. The agenda of what it owes has the subject `occurrence:<id>`.
    """

    id: UUID
    schedule_id: UUID
    original_local: datetime
    fold: int
    local: datetime
    occurs_at: datetime
    adjusted: Adjusted | None
    state: OccurrenceState
    revision: int
    timezone_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceChange:
    """What became of one future occurrence, or of those of its steps that are named."""

    occurrence_id: UUID
    original_local: datetime
    fold: int
    occurs_at: datetime
    was_at: datetime | None = None
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDiff:
    """What an edit changed about what is to come. An occurrence whose steps changed is in several lists.

    `too_late` lists steps that were running while they stopped being owed.
    """

    kept: tuple[OccurrenceChange, ...] = ()
    moved: tuple[OccurrenceChange, ...] = ()
    added: tuple[OccurrenceChange, ...] = ()
    withdrawn: tuple[OccurrenceChange, ...] = ()
    too_late: tuple[OccurrenceChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedOverride:
    """A change to an occurrence that there is no more. It is kept, and counts again if the occurrence comes back."""

    original_local: datetime
    fold: int
    new_local: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """The answer to every verb: the schedule as it is now and what that changed, up to its `planned_until`.

    `first_occurrence` is the next one that is owed. `split_from` is the older part of a schedule that was split.
    """

    schedule: Schedule
    diff: ScheduleDiff
    first_occurrence: Occurrence | None = None
    orphaned_overrides: tuple[OrphanedOverride, ...] = ()
    unused_exdates: tuple[datetime, ...] = ()
    warnings: tuple[str, ...] = ()
    split_from: Schedule | None = None


def checked_local(field_name: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidInput(f"{value!r:.100} is not a datetime; give a wall time", field=field_name)
    return plain_local(value, field_name)


def _checked_dates(field_name: str, dates: Sequence[datetime]) -> tuple[datetime, ...]:
    if len(dates) > DATES_MAX:
        raise InvalidInput(f"there are {len(dates)}; give at most {DATES_MAX}", field=field_name)
    return tuple(sorted({checked_local(field_name, one) for one in dates}))


def _checked_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    for step in steps:
        if not isinstance(step, Step):
            raise InvalidInput(f"{step!r:.100} is not a Step; give one", field="steps")
        if step.offset is None or step.expires_at is not None:
            raise InvalidInput(
                f"step {step.key!r}: it is of every occurrence; give an offset, and expires_after if it expires",
                field="steps",
            )
    keys = [step.key for step in steps]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(f"the step {twice!r} is stated twice", field="steps")
    return tuple(steps)


def check_choice(field_name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidInput(f"{value!r:.100} is unknown; use {' or '.join(choices)}", field=field_name)
