"""Refusals of the app: errors in words that name the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from timebell.apps.meetings.models import PARTICIPANTS_MAX, Slot, Status
from timebell.errors import InvalidInput, NotFound, TimebellError

# As the pages explain them that a refusal points to.
CODES: Final = {
    "not_a_participant": (
        "Only those who take part in a meeting may change it, and only its requester removes others."
    ),
    "own_proposal": "Whoever proposed a meeting cannot accept it. Somebody else who takes part does.",
    "meeting_status": (
        "The meeting is in a state that this does not lead out of. Read it again; `meeting_status` is that state."
    ),
    "slot_conflict": (
        "Somebody who takes part has another meeting, a hold or something in their own calendar at that time. "
        "`next_free` lists slots of the same length at which everybody can."
    ),
    "requester_stays": "The requester always takes part. Cancel the meeting instead.",
    "too_many_participants": "The meeting has as many participants as one may have. Remove one first.",
}


class MeetingRefused(TimebellError):
    """Something is not to be done to a meeting, and nothing was changed."""


class NotAParticipant(MeetingRefused):
    """Only those who take part in a meeting may change it, and only its requester removes others."""


class OwnProposal(MeetingRefused):
    """Whoever proposed a meeting does not accept it."""


class WrongStatus(MeetingRefused):
    """A meeting is in a state that this does not lead out of."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


class SlotConflict(MeetingRefused):
    """A participant is taken then. `next_free` are slots of the same length that suit all."""

    def __init__(self, next_free: Sequence[Slot]) -> None:
        super().__init__(
            "slot: a participant is taken then; choose another, or reschedule to one of next_free"
        )
        self.next_free = tuple(next_free)


class RequesterStays(MeetingRefused):
    """The requester always takes part."""


class TooManyParticipants(MeetingRefused):
    """A meeting has as many participants as one may have."""


class WrongSlot(MeetingRefused, InvalidInput):
    """A slot is none of those that may be accepted."""


class UnknownPerson(InvalidInput):
    """Somebody who is to take part is no recipient."""


class TooManyCalendars(TimebellError):
    """A person has as many imported calendars as one may have."""


def no_meeting(id: UUID) -> NotFound:
    return NotFound(f"there is no meeting {id}")


def not_a_participant(
    detail: str = "only those who take part in a meeting may change it",
) -> NotAParticipant:
    return NotAParticipant(detail)


def own_proposal() -> OwnProposal:
    return OwnProposal("you proposed this meeting; another participant accepts it")


def not_possible(action: str, status: Status) -> WrongStatus:
    return WrongStatus(f"you cannot {action} a meeting that is {status}; read it again", status)


def changed_meanwhile(status: Status) -> WrongStatus:
    detail = f"somebody else was first, and the meeting is {status} by now; read it again and decide anew"
    return WrongStatus(detail, status)


def requester_stays() -> RequesterStays:
    return RequesterStays("the requester always takes part; cancel the meeting instead")


def too_many() -> TooManyParticipants:
    return TooManyParticipants(f"a meeting has at most {PARTICIPANTS_MAX} participants; remove one first")


def wrong_slot(message: str) -> WrongSlot:
    return WrongSlot(message, field="slot")


def unknown_people(field: str, unknown: Sequence[UUID]) -> UnknownPerson:
    return UnknownPerson(f"there is no recipient {unknown[0]}; add it first", field=field)


def too_many_calendars(most: int) -> TooManyCalendars:
    return TooManyCalendars(f"there are {most} calendars already; take one away first")
