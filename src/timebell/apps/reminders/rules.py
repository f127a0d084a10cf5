"""Pure rules, without a clock or a database: how a reminder reads, and which task is for which occurrence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from timebell.apps.reminders.models import Details, Kind

_HOUR: Final = 60
_DAY: Final = 24 * _HOUR


def type_of(kind: Kind, minutes: int) -> Literal["reminder", "due_task"]:
    """What a line in the inbox is: a task that is due this instant is told as such."""
    return "due_task" if kind == "task" and minutes == 0 else "reminder"


def lead_of(minutes: int) -> dict[str, Any]:
    """How long before, in the largest unit that is exact. Up to two days people count in hours."""
    count, unit = minutes, "minute"
    if minutes % _DAY == 0 and minutes > 2 * _DAY:
        count, unit = minutes // _DAY, "day"
    elif minutes % _HOUR == 0:
        count, unit = minutes // _HOUR, "hour"
    return {"count": count, "unit": unit if count == 1 else f"{unit}s"}


def context_of(details: Details, minutes: int) -> Mapping[str, Any]:
    """What the texts of one reminder speak of; `data` goes along for programs, and says which occurrence it is."""
    return {
        "type": type_of(details.kind, minutes),
        "title": details.title,
        "is_now": minutes == 0,
        "lead": lead_of(minutes),
        "data": {"offset_minutes": minutes, "title": details.title, "kind": details.kind},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An occurrence that is to have a task."""

    occurrence_id: UUID
    original_local: datetime
    occurs_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A task that an occurrence has, or had before it was taken back."""

    id: UUID
    occurrence_id: UUID
    original_local: datetime
    due_at: datetime | None
    title: str
    show_before_due_time: int | None
    is_completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanges:
    """How tasks are brought in line with occurrences."""

    added: tuple[Wanted, ...] = ()
    moved: tuple[tuple[Linked, Wanted], ...] = ()
    removed: tuple[Linked, ...] = ()


def settle(tasks: Sequence[Linked], wanted: Sequence[Wanted], details: Details) -> TaskChanges:
    """One task for each occurrence, and none without, but what is completed stays.

    An occurrence keeps the task it has. One that is new takes over the task of one that is gone from the same day, so
    that an edit of the time of day leaves what was done, or written down, where it was.
    """
    by_occurrence = {task.occurrence_id: task for task in tasks}
    pairs: list[tuple[Linked, Wanted]] = []
    missing: list[Wanted] = []
    for one in wanted:
        held = by_occurrence.pop(one.occurrence_id, None)
        if held is None:
            missing.append(one)
        else:
            pairs.append((held, one))
    left: dict[date, list[Linked]] = {}
    for task in by_occurrence.values():
        left.setdefault(task.original_local.date(), []).append(task)
    added: list[Wanted] = []
    for one in missing:
        same_day = left.get(one.original_local.date())
        if same_day:
            pairs.append((same_day.pop(0), one))
        else:
            added.append(one)
    return TaskChanges(
        added=tuple(added),
        moved=tuple(pair for pair in pairs if not _is_settled(*pair, details)),
        removed=tuple(task for rest in left.values() for task in rest if not task.is_completed),
    )


def _is_settled(task: Linked, one: Wanted, details: Details) -> bool:
    if (task.occurrence_id, task.due_at) != (one.occurrence_id, one.occurs_at):
        return False
    said = (task.title, task.show_before_due_time)
    return task.is_completed or said == (details.title, details.show_before_minutes)
