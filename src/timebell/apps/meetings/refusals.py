"""What is refused, in words that name the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from timebell.apps.meetings.models import PARTICIPANTS_MAX, Status
from timebell.errors import NotFound
from timebell.web import FieldError, Problem

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


def no_meeting(id: UUID) -> NotFound:
    return NotFound(f"there is no meeting {id}")


def not_a_participant(detail: str = "only those who take part in a meeting may change it") -> Problem:
    return Problem(403, "not_a_participant", detail)


def own_proposal() -> Problem:
    return Problem(403, "own_proposal", "you proposed this meeting; another participant accepts it")


def not_possible(action: str, status: Status) -> Problem:
    detail = f"you cannot {action} a meeting that is {status}; read it again"
    return Problem(409, "meeting_status", detail, more={"meeting_status": status})


def changed_meanwhile(status: Status) -> Problem:
    detail = f"somebody else was first, and the meeting is {status} by now; read it again and decide anew"
    return Problem(409, "meeting_status", detail, more={"meeting_status": status})


def requester_stays() -> Problem:
    return Problem(409, "requester_stays", "the requester always takes part; cancel the meeting instead")


def too_many() -> Problem:
    detail = f"a meeting has at most {PARTICIPANTS_MAX} participants; remove one first"
    return Problem(409, "too_many_participants", detail)


def wrong_slot(message: str) -> Problem:
    error = FieldError(pointer="/slot", code="slot_invalid", message=message)
    return Problem(422, "invalid_input", f"slot: {message}", errors=[error])


def unknown_people(field: str, unknown: Sequence[UUID]) -> Problem:
    message = f"there is no recipient {unknown[0]}; add it first"
    error = FieldError(pointer=f"/{field}", code="not_found", message=message)
    return Problem(422, "invalid_input", f"{field}: {message}", errors=[error])
