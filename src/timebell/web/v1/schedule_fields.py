"""Request and response bodies about schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, model_validator

from timebell.errors import InvalidInput
from timebell.kernel import ScheduleChange, Step
from timebell.kernel.models import Urgency
from timebell.kernel.schedules import (
    CATCH_UP_MAX,
    DATES_MAX,
    RECURRENCE_CHARS_MAX,
    ScheduleState,
)
from timebell.rules.agenda import CutOff, Late
from timebell.rules.localtime import NAME_CHARS_MAX, Adjusted, OnFold, OnGap
from timebell.rules.planned import CatchUp, OccurrenceState
from timebell.web.operation.fields import Duration, Input, Instant, LocalTime, Name, Offset, Output, PageQuery
from timebell.web.v1.job_fields import Attempts, OwnKind, Priority

_STEPS_MAX = 200

Zone = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, examples=["Europe/Berlin"])]
Recurrence = Annotated[
    str, Field(min_length=1, max_length=RECURRENCE_CHARS_MAX, examples=["FREQ=WEEKLY", "every PT15M"])
]
Dates = Annotated[list[LocalTime], Field(max_length=DATES_MAX)]
CatchUpMax = Annotated[int, Field(ge=1, le=CATCH_UP_MAX)]
Fold = Annotated[int, Field(ge=0, le=1, description="1 for the second pass where clocks show a time twice.")]


class StepInput(Input):
    """What each occurrence owes at an offset from it; `-PT1H` is an hour before."""

    key: Name
    kind: OwnKind
    offset: Offset
    payload: dict[str, Any] = Field(default_factory=dict)
    late: Late = "skip"
    grace: Duration | None = None
    expires_after: Duration | None = None
    guard: Name | None = None
    queue: Name | None = None
    priority: Priority = 0
    urgency: Urgency = "normal"
    max_attempts: Attempts | None = None
    ordered: bool = False
    once: bool = False
    cut_off: CutOff = "run"

    def step(self, index: int) -> Step:
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if given.get("grace", 0) is None:
            del given["grace"]
        try:
            return Step(**given)
        except InvalidInput as error:
            message = str(error).removeprefix(f"{error.field}: ")
            raise InvalidInput(message, field=f"steps[{index}].{error.field}") from None


Steps = Annotated[list[StepInput], Field(min_length=1, max_length=_STEPS_MAX)]


class ScheduleInput(Input):
    """Something that happens once, or with a `recurrence` again, by the wall clock of a place.

    All `*_local` and the dates are wall times of the timezone. `grace` is how late a step may still be done.
    """

    timezone: Zone
    start_local: LocalTime
    steps: Steps
    recurrence: Recurrence | None = None
    until_local: LocalTime | None = None
    exdates: Dates = Field(default_factory=list)
    rdates: Dates = Field(default_factory=list)
    on_gap: OnGap = "shift"
    on_fold: OnFold = "first"
    catch_up: CatchUp = "latest"
    catch_up_max: CatchUpMax = 100
    grace: Duration | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    owner: Name | None = None
    subject: Name | None = None
    correlation_id: Name | None = None

    def terms(self) -> dict[str, Any]:
        return terms_of(self, self.model_fields_set)


class ScheduleChanges(Input):
    """What to change; what is left out stays. Null takes a recurrence, an end, a grace, an owner or a subject away."""

    timezone: Zone | None = None
    start_local: LocalTime | None = None
    steps: Steps | None = None
    recurrence: Recurrence | None = None
    until_local: LocalTime | None = None
    exdates: Dates | None = None
    rdates: Dates | None = None
    on_gap: OnGap | None = None
    on_fold: OnFold | None = None
    catch_up: CatchUp | None = None
    catch_up_max: CatchUpMax | None = None
    grace: Duration | None = None
    payload: dict[str, Any] | None = None
    owner: Name | None = None
    subject: Name | None = None

    @model_validator(mode="after")
    def _needed(self) -> ScheduleChanges:
        for name in sorted(self.model_fields_set - _NULLABLE):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is needed; leave it out to keep it")
        return self

    def changes(self) -> dict[str, Any]:
        return terms_of(self, self.model_fields_set & ScheduleChanges.model_fields.keys())


_NULLABLE = frozenset(("recurrence", "until_local", "grace", "owner", "subject"))


class SplitInput(ScheduleChanges):
    """Where to split, by the wall time that the recurrence gave the occurrence, and what changes from there on."""

    original_local: LocalTime
    fold: Fold = 0


class OccurrenceChanges(Input):
    """Skip the occurrence, or move it, or give it a payload of its own, which is laid over that of the schedule."""

    skip: bool = False
    start_local: LocalTime | None = None
    payload: dict[str, Any] | None = None


class FoldQuery(Input):
    fold: Annotated[Fold, Field(strict=False)] = 0


class SchedulesQuery(PageQuery):
    """Which schedules: those of one owner or about one subject, in one state."""

    owner: Name | None = None
    subject: Name | None = None
    state: ScheduleState | None = None


class OccurrencesQuery(PageQuery):
    """Which occurrences: from one instant on, before another."""

    from_at: Instant | None = None
    before: Instant | None = None


class PreviewInput(Input):
    """A recurrence to be tried. Without a start it begins with the next minute."""

    recurrence: Recurrence
    timezone: Zone = "UTC"
    start_local: LocalTime | None = None
    count: Annotated[int, Field(ge=1, le=1_000)] = 10
    after: Instant | None = None
    until_local: LocalTime | None = None
    exdates: Dates = Field(default_factory=list)
    rdates: Dates = Field(default_factory=list)
    on_gap: OnGap = "shift"
    on_fold: OnFold = "first"


class StepOutput(Output):
    key: str
    kind: str
    offset: Offset
    payload: dict[str, Any]
    late: Late
    grace: Duration
    expires_after: Duration | None
    guard: str | None
    queue: str | None
    priority: int
    urgency: Urgency
    max_attempts: int | None
    ordered: bool
    once: bool
    cut_off: CutOff


class ScheduleOutput(Output):
    """A schedule as it is. Every occurrence before `planned_until` is planned. `state_reason` says why it is not
    active; one that ended by itself is `over`."""

    id: UUID
    timezone: str
    start_local: LocalTime
    recurrence: str | None
    until_local: LocalTime | None
    last_local: LocalTime | None
    exdates: list[LocalTime]
    rdates: list[LocalTime]
    on_gap: OnGap
    on_fold: OnFold
    catch_up: CatchUp
    catch_up_max: int
    grace: Duration | None
    steps: list[StepOutput]
    payload: dict[str, Any]
    owner: str | None
    subject: str | None
    correlation_id: str | None
    parent_id: UUID | None
    state: ScheduleState
    state_reason: str | None
    revision: int
    planned_until: Instant
    timezone_version: str
    created_at: Instant
    updated_at: Instant


class OccurrenceOutput(Output):
    """One occurrence. `original_local` names it, whatever becomes of it; `local` is where it is now."""

    id: UUID
    schedule_id: UUID
    original_local: LocalTime
    fold: int
    local: LocalTime
    occurs_at: Instant
    adjusted: Adjusted | None
    state: OccurrenceState
    revision: int
    timezone_version: str


class OccurrenceChangeOutput(Output):
    """What became of one occurrence to come, or of those of its steps that are named."""

    occurrence_id: UUID
    original_local: LocalTime
    fold: int
    occurs_at: Instant
    was_at: Instant | None
    steps: list[str]


class DiffOutput(Output):
    """What changed about what is to come, as far as it is planned. `too_late` lists steps that were running already."""

    kept: list[OccurrenceChangeOutput]
    moved: list[OccurrenceChangeOutput]
    added: list[OccurrenceChangeOutput]
    withdrawn: list[OccurrenceChangeOutput]
    too_late: list[OccurrenceChangeOutput]


class OrphanOutput(Output):
    """A change to an occurrence that there is no more; it counts again if the occurrence comes back."""

    original_local: LocalTime
    fold: int
    new_local: LocalTime | None


class ChangedScheduleOutput(ScheduleOutput):
    """The schedule as it is now, and what that changed. `split_from` is the older part of one that was split."""

    diff: DiffOutput
    first_occurrence: OccurrenceOutput | None
    orphaned_overrides: list[OrphanOutput]
    unused_exdates: list[LocalTime]
    warnings: list[str]
    split_from: ScheduleOutput | None


class PreviewLineOutput(Output):
    """The wall time that the recurrence means, what clocks show when it is due, and why they differ."""

    at: Instant
    local: LocalTime
    shown_local: LocalTime
    offset_seconds: int
    adjusted: Literal["gap", "fold"] | None
    note: str | None


class PreviewOutput(Output):
    """When a recurrence is due, what it is called in plain English, and what may surprise about it."""

    recurrence: str
    description: str
    timezone: str
    timezone_version: str
    start_local: LocalTime
    occurrences: list[PreviewLineOutput]
    has_more: bool
    warnings: list[str]


def terms_of(body: ScheduleInput | ScheduleChanges, names: set[str]) -> dict[str, Any]:
    """The kernel's terms of those names."""
    terms = {name: getattr(body, name) for name in names}
    steps: Sequence[StepInput] | None = terms.get("steps")
    if steps is not None:
        terms["steps"] = [step.step(index) for index, step in enumerate(steps)]
    return terms


def changed(change: ScheduleChange) -> ChangedScheduleOutput:
    schedule: Mapping[str, Any] = ScheduleOutput.model_validate(change.schedule).__dict__
    names = ChangedScheduleOutput.model_fields.keys() - schedule.keys()
    return ChangedScheduleOutput.model_validate(
        {**schedule, **{name: getattr(change, name) for name in names}}
    )
