"""How what is refused about meetings is told over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from timebell.apps.meetings.models import Slot
from timebell.apps.meetings.refusals import (
    NotAParticipant,
    OwnProposal,
    RequesterStays,
    SlotConflict,
    TooManyCalendars,
    TooManyParticipants,
    UnknownPerson,
    WrongSlot,
    WrongStatus,
)
from timebell.errors import TimebellError
from timebell.web import ProblemForm, in_field


def _shown(slot: Slot) -> dict[str, str]:
    return {name: getattr(slot, name).isoformat().replace("+00:00", "Z") for name in ("start", "end")}


PROBLEMS: Final[Mapping[type[TimebellError], ProblemForm]] = {
    NotAParticipant: ProblemForm(status=403, code="not_a_participant"),
    OwnProposal: ProblemForm(status=403, code="own_proposal"),
    WrongStatus: ProblemForm(
        status=409, code="meeting_status", more=lambda error: {"meeting_status": error.status}
    ),
    SlotConflict: ProblemForm(
        status=409,
        code="slot_conflict",
        more=lambda error: {"next_free": [_shown(slot) for slot in error.next_free]},
    ),
    RequesterStays: ProblemForm(status=409, code="requester_stays"),
    TooManyParticipants: ProblemForm(status=409, code="too_many_participants"),
    TooManyCalendars: ProblemForm(status=409, code="too_many_calendars"),
    WrongSlot: ProblemForm(status=422, code="invalid_input", errors=in_field("slot_invalid")),
    UnknownPerson: ProblemForm(status=422, code="invalid_input", errors=in_field("not_found")),
}
