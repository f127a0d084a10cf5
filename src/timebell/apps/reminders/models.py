"""The nouns of reminders, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from timebell.kernel import Schedule

Kind = Literal["task", "reminder"]

# 48, 24, 12, 6 and 3 hours before.
OFFSETS: Final = (2880, 1440, 720, 360, 180)
_OWNER: Final = "reminders:"
# Why a schedule ended that came to its own end. It may be given a later one.
_OVER: Final = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a schedule of this app is about; when it occurs is the kernel's. Offsets are minutes before an occurrence.

    An offset that is muted is not told, and stays in the list of those to choose from.
    """

    kind: Kind
    title: str
    show_before_minutes: int = 0
    offsets: tuple[int, ...] = OFFSETS
    muted: tuple[int, ...] = ()

    @property
    def told(self) -> tuple[int, ...]:
        """The offsets at which somebody is reminded."""
        return tuple(minutes for minutes in dict.fromkeys(self.offsets) if minutes not in self.muted)

    def payload(self) -> dict[str, Any]:
        """As the schedule carries it, and each of its jobs."""
        return {
            "kind": self.kind,
            "title": self.title,
            "show_before_minutes": self.show_before_minutes,
            "notify_offsets_min": list(self.offsets),
            "muted_offsets_min": list(self.muted),
        }


def details_of(schedule: Schedule) -> Details:
    payload: Mapping[str, Any] = schedule.payload
    return Details(
        kind=payload["kind"],
        title=payload["title"],
        show_before_minutes=payload["show_before_minutes"],
        offsets=tuple(payload["notify_offsets_min"]),
        muted=tuple(payload["muted_offsets_min"]),
    )


def owner_of(person: UUID) -> str:
    """Under which name the kernel keeps the schedules that a person has here, apart from those of other apps."""
    return f"{_OWNER}{person}"


def person_of(schedule: Schedule) -> UUID:
    assert schedule.owner is not None, "every schedule of this app has an owner"
    return UUID(schedule.owner.removeprefix(_OWNER))


def is_deleted(schedule: Schedule) -> bool:
    """Whether somebody ended it, so that nothing brings it back."""
    return schedule.state == "ended" and schedule.state_reason != _OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something to do. One that came of a schedule names the occurrence that it is for."""

    id: UUID
    user_id: UUID
    title: str
    description: str
    category: str | None
    duration: int | None
    priority: str | None
    due_at: datetime | None
    show_before_due_time: int | None
    visible_from: datetime | None
    completed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    schedule_id: UUID | None
    occurrence_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task as a person writes it down."""

    title: str
    description: str = ""
    category: str | None = None
    duration: int | None = None
    priority: str | None = None
    due_at: datetime | None = None
    show_before_due_time: int | None = None
