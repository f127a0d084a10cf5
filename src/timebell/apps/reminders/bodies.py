"""Request and response bodies about reminders and tasks. The names are the source's own, which clients know; inside,
the glossary's are used."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field, field_validator, model_validator

from timebell.apps.reminders.models import OFFSETS, Details, Kind, Task, details_of, person_of
from timebell.kernel import Occurrence, OccurrenceChange, Schedule, ScheduleChange
from timebell.web import Input, Instant, LocalTime, Output, PageQuery

_YEAR: Final = 366 * 24 * 60
_FIRST_YEAR: Final = 1970
Minutes = Annotated[int, Field(ge=0, le=_YEAR)]
# Each is a job for every occurrence that is planned.
Offsets = Annotated[list[Minutes], Field(max_length=20)]
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Zone = Annotated[str, Field(min_length=1, max_length=100)]
Recurrence = Annotated[str, Field(max_length=1_024)]

# The kernel's names of what can be wrong, as callers know them.
NAMES = {"recurrence": "rrule", "timezone": "tz", "steps": "notify_offsets_min"}


class NewSchedule(Input):
    """Something to be reminded of; without `rrule` it happens once. Offsets are minutes before each occurrence."""

    kind: Kind
    title: Title
    tz: Zone
    start_local: LocalTime
    rrule: Recurrence | None = None
    until_local: LocalTime | None = None
    show_before_minutes: Minutes = 0
    notify_offsets_min: Offsets | None = None
    muted_offsets_min: Offsets = Field(default_factory=list)

    def details(self) -> Details:
        return Details(
            kind=self.kind,
            title=self.title,
            show_before_minutes=self.show_before_minutes,
            offsets=_offsets(self.notify_offsets_min),
            muted=tuple(dict.fromkeys(self.muted_offsets_min)),
        )

    def when(self) -> dict[str, Any]:
        return {
            "timezone": self.tz,
            "start_local": self.start_local,
            "recurrence": self.rrule or None,
            "until_local": self.until_local,
        }


class ScheduleEdit(Input):
    """What to change; what is left out stays. Null takes an end or a recurrence away, and offsets back to the usual."""

    kind: Kind | None = None
    title: Title | None = None
    tz: Zone | None = None
    start_local: LocalTime | None = None
    rrule: Recurrence | None = None
    until_local: LocalTime | None = None
    show_before_minutes: Minutes | None = None
    notify_offsets_min: Offsets | None = None
    muted_offsets_min: Offsets | None = None

    @field_validator("kind", "title", "tz", "start_local")
    @classmethod
    def _needed(cls, value: object) -> object:
        if value is None:
            raise ValueError("is needed; leave it out to keep it")
        return value

    def details(self, old: Details) -> Details:
        given = self.model_fields_set
        return Details(
            kind=self.kind or old.kind,
            title=self.title or old.title,
            show_before_minutes=(self.show_before_minutes or 0)
            if "show_before_minutes" in given
            else old.show_before_minutes,
            offsets=_offsets(self.notify_offsets_min) if "notify_offsets_min" in given else old.offsets,
            muted=tuple(dict.fromkeys(self.muted_offsets_min or ()))
            if "muted_offsets_min" in given
            else old.muted,
        )

    def when(self) -> dict[str, Any]:
        names = {"tz": "timezone", "rrule": "recurrence"}
        timed = ("tz", "start_local", "rrule", "until_local")
        return {
            names.get(name, name): getattr(self, name) or None
            for name in timed
            if name in self.model_fields_set
        }


class OccurrenceEdit(Input):
    """Leave an occurrence out (`skip` true), have it as it was (`skip` false), or have it at another wall time."""

    skip: bool | None = None
    start_local: LocalTime | None = None

    @model_validator(mode="after")
    def _one(self) -> OccurrenceEdit:
        if (self.skip is None) == (self.start_local is None):
            raise ValueError("give skip or start_local, one of them")
        return self


class OccurrenceQuery(Input):
    """Whether only this occurrence is meant; `fold` 1 is the second pass of an hour that comes twice."""

    scope: Literal["this", "following"] = "this"
    fold: Annotated[int, Field(ge=0, le=1, strict=False)] = 0


class SchedulesQuery(PageQuery):
    active: Annotated[bool, Field(strict=False)] | None = None


class OccurrencesQuery(PageQuery):
    """Those to come, unless `since` says from when on."""

    since: Instant | None = None
    before: Instant | None = None


class TasksQuery(PageQuery):
    """`visible` "now" leaves out what is not to be seen yet."""

    visible: Literal["now", "all"] = "now"
    completed: Annotated[bool, Field(strict=False)] | None = None
    sort: Literal["created_at", "-created_at"] = "created_at"


class TaskInput(Input):
    """Something to do, due at an instant or at none. `show_before_due_time` is in minutes."""

    title: Title
    description: Annotated[str, Field(max_length=10_000)] = ""
    category: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    duration: Minutes | None = None
    priority: Annotated[str, Field(min_length=1, max_length=50)] | None = None
    due_at: Instant | None = None
    show_before_due_time: Minutes | None = None

    @field_validator("due_at")
    @classmethod
    def _recent(cls, value: datetime | None) -> datetime | None:
        """So that there is an instant from which on it may be seen."""
        if value is not None and value.year < _FIRST_YEAR:
            raise ValueError(f"lies before {_FIRST_YEAR}; give a later one, or none")
        return value


class ScheduleRow(Output):
    """A schedule. `rev` counts its changes; all before `last_materialized_until` is planned."""

    id: UUID
    user_id: UUID
    kind: Kind
    title: str
    tz: str
    start_local: LocalTime
    rrule: str | None
    until_local: LocalTime | None
    show_before_minutes: int
    notify_offsets_min: list[int]
    muted_offsets_min: list[int]
    active: bool
    rev: int
    last_materialized_until: Instant | None
    created_at: Instant
    updated_at: Instant


class OccurrenceRow(Output):
    """One occurrence. `original_local` names it, wherever it was moved to; `local` is where it is."""

    id: UUID
    schedule_id: UUID
    occurs_at: Instant
    original_local: LocalTime
    local: LocalTime
    fold: int
    state: Literal["planned", "skipped", "missed"]
    adjusted: Literal["gap", "fold"] | None
    rev: int


class ChangedOccurrence(Output):
    """What became of one occurrence, and of which of its reminders."""

    occurrence_id: UUID
    original_local: LocalTime
    occurs_at: Instant
    was_at: Instant | None
    offsets_min: list[int]


class Diff(Output):
    """What a change meant for what is to come; `too_late` is what was being told just then."""

    kept: list[ChangedOccurrence]
    moved: list[ChangedOccurrence]
    added: list[ChangedOccurrence]
    withdrawn: list[ChangedOccurrence]
    too_late: list[ChangedOccurrence]


class ChangedSchedule(ScheduleRow):
    """A schedule after a change. `split_from` is the one that ended where this one goes on."""

    diff: Diff
    warnings: list[str]
    split_from: UUID | None


class TaskRow(Output):
    """A task. One that a schedule made names the occurrence that it is for."""

    id: UUID
    user_id: UUID
    title: str
    description: str
    category: str | None
    duration: int | None
    priority: str | None
    due_at: Instant | None
    show_before_due_time: int | None
    visible_from: Instant | None
    completed_at: Instant | None
    schedule_id: UUID | None
    occurrence_id: UUID | None
    created_at: Instant
    updated_at: Instant


def schedule_row(schedule: Schedule) -> ScheduleRow:
    return ScheduleRow(**_schedule_values(schedule))


def changed_schedule(change: ScheduleChange) -> ChangedSchedule:
    diff = change.diff
    return ChangedSchedule(
        **_schedule_values(change.schedule),
        diff=Diff(
            kept=[_changed(one) for one in diff.kept],
            moved=[_changed(one) for one in diff.moved],
            added=[_changed(one) for one in diff.added],
            withdrawn=[_changed(one) for one in diff.withdrawn],
            too_late=[_changed(one) for one in diff.too_late],
        ),
        warnings=list(change.warnings),
        split_from=None if change.split_from is None else change.split_from.id,
    )


def occurrence_row(one: Occurrence) -> OccurrenceRow:
    return OccurrenceRow(
        id=one.id,
        schedule_id=one.schedule_id,
        occurs_at=one.occurs_at,
        original_local=one.original_local,
        local=one.local,
        fold=one.fold,
        state=one.state,
        adjusted=one.adjusted,
        rev=one.revision,
    )


def task_row(task: Task) -> TaskRow:
    return TaskRow.model_validate(task)


def _schedule_values(schedule: Schedule) -> dict[str, Any]:
    details = details_of(schedule)
    return {
        "id": schedule.id,
        "user_id": person_of(schedule),
        "kind": details.kind,
        "title": details.title,
        "tz": schedule.timezone,
        "start_local": schedule.start_local,
        "rrule": schedule.recurrence,
        "until_local": schedule.until_local,
        "show_before_minutes": details.show_before_minutes,
        "notify_offsets_min": list(details.offsets),
        "muted_offsets_min": list(details.muted),
        "active": schedule.state == "active",
        "rev": schedule.revision,
        "last_materialized_until": schedule.planned_until,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }


def _changed(one: OccurrenceChange) -> ChangedOccurrence:
    return ChangedOccurrence(
        occurrence_id=one.occurrence_id,
        original_local=one.original_local,
        occurs_at=one.occurs_at,
        was_at=one.was_at,
        offsets_min=[int(key.removeprefix("before-")) for key in one.steps if key.startswith("before-")],
    )


def _offsets(given: list[int] | None) -> tuple[int, ...]:
    return OFFSETS if given is None else tuple(dict.fromkeys(given))
