"""The state machine of meetings, without a clock or a database: their states, and what is owed in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.meetings.models import Meeting, MeetingSettings, Slot, Status, Transition

# The transitions, from which states each leads, and to which.
FROM: Final[Mapping[Transition, frozenset[Status]]] = {
    "accept": frozenset({"pending"}),
    "deny": frozenset({"pending"}),
    "reschedule": frozenset({"pending", "accepted"}),
    "cancel": frozenset({"pending", "accepted"}),
    "complete": frozenset({"accepted"}),
}
TO: Final[Mapping[Transition, Status]] = {
    "accept": "accepted",
    "deny": "denied",
    "reschedule": "rescheduled",
    "cancel": "cancelled",
    "complete": "completed",
}
# Those in which something may still come of a meeting.
OPEN: Final[frozenset[Status]] = frozenset({"pending", "accepted"})

_HOUR: Final = 60


def is_legal(transition: Transition, status: Status) -> bool:
    return status in FROM[transition]


def refused_slot(meeting: Meeting, slot: Slot, now: datetime) -> str | None:
    """What is wrong with a slot that somebody wants to accept, or None."""
    if slot not in meeting.proposed_slots:
        return "is none of the slots that were proposed; choose one of those, or reschedule"
    if slot.start <= now:
        return "has begun already; choose a later one, or reschedule"
    return None


def is_to_come(meeting: Meeting, now: datetime) -> bool:
    """Whether its slot, or any that is proposed, is not over."""
    slots = meeting.proposed_slots if meeting.accepted_slot is None else (meeting.accepted_slot,)
    return any(slot.end > now for slot in slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """One reminder for one participant, so many minutes before the start."""

    recipient: UUID
    minutes: int

    @property
    def type(self) -> str:
        return reminder_type(self.minutes)

    @property
    def key(self) -> str:
        return f"{self.type}:{self.recipient}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is owed about a meeting: reminders before its slot, and at the end of it that it is completed."""

    slot: Slot | None = None
    reminders: tuple[Reminder, ...] = ()


def plan_of(meeting: Meeting, settings: MeetingSettings) -> Plan:
    """In every state but `accepted` nothing is owed."""
    if meeting.status != "accepted":
        return Plan()
    return Plan(
        slot=meeting.accepted_slot,
        reminders=tuple(
            Reminder(recipient=recipient, minutes=minutes)
            for recipient in meeting.participants
            for minutes in dict.fromkeys(settings.reminder_offsets_min)
        ),
    )


def reminder_type(minutes: int) -> str:
    """As the source calls it: `24h_before`, `1h_before`, `15m_before`."""
    return f"{minutes // _HOUR}h_before" if minutes % _HOUR == 0 else f"{minutes}m_before"


def lead_of(minutes: int) -> dict[str, Any]:
    """How long before, in whole hours where it is those."""
    if minutes % _HOUR == 0:
        return {"count": minutes // _HOUR, "unit": "hour"}
    return {"count": minutes, "unit": "minute"}


def distinct(slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """In the order in which they were proposed, each once."""
    return tuple(dict.fromkeys(slots))
