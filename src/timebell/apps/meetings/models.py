"""The nouns of meetings, as frozen records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from timebell.kernel import AgendaDiff

Status = Literal["pending", "accepted", "denied", "rescheduled", "cancelled", "completed"]
Transition = Literal["accept", "deny", "reschedule", "cancel", "complete"]

PARTICIPANTS_MAX: Final = 50
SLOTS_MAX: Final = 20
OFFSETS_MAX: Final = 5
_SUBJECT: Final = "meeting:"
_NO_DIFFERENCE: Final = AgendaDiff(revision=0)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """From an instant, inclusive, to another, exclusive. Two that are the same instants are the same slot."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A meeting as it stands. The requester is always one of the participants, who are in the order of their ids.

    `root_id` is the first meeting of the lineage, this one where it was never rescheduled; `sequence` counts on through
    the lineage, as calendars want to have it.
    """

    tenant: str
    id: UUID
    requester_id: UUID
    title: str
    description: str
    location: str | None
    timezone: str
    proposed_slots: tuple[Slot, ...]
    accepted_slot: Slot | None
    status: Status
    parent_meeting_id: UUID | None
    root_id: UUID
    sequence: int
    revision: int
    participants: tuple[UUID, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        """Under which name the kernel keeps what is owed about it."""
        return subject_of(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A meeting after a change, and what that changed about what is owed."""

    meeting: Meeting
    diff: AgendaDiff = _NO_DIFFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMeeting:
    """A meeting as it is proposed."""

    title: str
    timezone: str
    participants: Sequence[UUID]
    proposed_slots: Sequence[Slot]
    description: str = ""
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who does it: a person, or with None the app itself. `name` is what the audit trail calls them."""

    person: UUID | None
    name: str
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEvent:
    """One transition, which nothing changes afterwards."""

    id: UUID
    meeting_id: UUID
    from_status: Status
    to_status: Status
    reason: str | None
    actor: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderJob:
    """A reminder, owed or at its end. `status` has the source's words; `failure_count` are attempts that failed."""

    id: UUID
    meeting_id: UUID
    recipient_id: UUID
    reminder_type: str
    due_at: datetime
    status: Literal["pending", "sent", "failed", "cancelled"]
    reason: str | None
    failure_count: int
    last_attempt_at: datetime | None
    run_at: datetime | None
    channels: Sequence[str]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingSettings:
    """What a tenant decided: how many minutes before the start people are reminded, and how often that is tried."""

    reminder_offsets_min: tuple[int, ...] = (1_440, 60, 15)
    reminder_attempts_max: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingFilter:
    """Which meetings of a person are listed: with a status, with another person, and at any time within a span.

    A meeting that was not accepted is at all the times that are proposed for it.
    """

    status: Status | None = None
    person: UUID | None = None
    since: datetime | None = None
    before: datetime | None = None


def subject_of(id: UUID) -> str:
    return f"{_SUBJECT}{id}"


def id_of(subject: str) -> UUID:
    return UUID(subject.removeprefix(_SUBJECT))
