"""What is refused about meetings, as it is told over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.apps.problem_tables import check_table
from timebell.apps import meetings
from timebell.apps.meetings import refusals
from timebell.apps.meetings.app import APP
from timebell.apps.meetings.models import Slot
from timebell.web import FieldError

AT = datetime(2027, 3, 5, 9, tzinfo=UTC)
WHO = UUID(int=7)


def test_how_each_error_is_told() -> None:
    check_table(
        APP,
        meetings,
        {
            refusals.not_a_participant(): (403, "not_a_participant", [], {}),
            refusals.own_proposal(): (403, "own_proposal", [], {}),
            refusals.not_possible("accept", "denied"): (
                409,
                "meeting_status",
                [],
                {"meeting_status": "denied"},
            ),
            refusals.changed_meanwhile("accepted"): (
                409,
                "meeting_status",
                [],
                {"meeting_status": "accepted"},
            ),
            refusals.SlotConflict([Slot(AT, AT + timedelta(hours=1))]): (
                409,
                "slot_conflict",
                [],
                {"next_free": [{"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}]},
            ),
            refusals.SlotConflict([]): (409, "slot_conflict", [], {"next_free": []}),
            refusals.requester_stays(): (409, "requester_stays", [], {}),
            refusals.too_many(): (409, "too_many_participants", [], {}),
            refusals.too_many_calendars(9): (409, "too_many_calendars", [], {}),
            refusals.wrong_slot("has passed"): (
                422,
                "invalid_input",
                [FieldError(pointer="/slot", code="slot_invalid", message="has passed")],
                {},
            ),
            refusals.unknown_people("participants", [WHO]): (
                422,
                "invalid_input",
                [
                    FieldError(
                        pointer="/participants",
                        code="not_found",
                        message=f"there is no recipient {WHO}; add it first",
                    )
                ],
                {},
            ),
        },
    )
