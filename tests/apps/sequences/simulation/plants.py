"""Bugs to plant in sequences, each a rule of the app left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.planting import Planted, answering, answering_in, instead, several
from tests.simulation.plants import CALM, Plant, planter
from timebell.apps.sequences import enrolling, guards, rules
from timebell.apps.sequences.bookings import Bookings
from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import Happened
from timebell.apps.sequences.store import SequenceStore
from timebell.kernel import Timebell

PLANTS: list[Plant] = []
_BOOKED = replace(CALM, bookings_a_day=12, kills_a_day=4, pauses_a_day=3, stops_a_day=1, rush=0.25)
# Somebody changes their mind about nearly every booking just when its messages are on their way.
_RUSHED = replace(CALM, bookings_a_day=20, pauses_a_day=4, rush=0.8)
_CALM = replace(CALM, bookings_a_day=8)
_plant = planter(PLANTS, _BOOKED)
_silence = planter(PLANTS, _CALM)


async def _nothing(self: Any, tx: Any, *facts: Any, **more: Any) -> None:
    return None


@_plant("to cancel ends nothing that was entered before", "silence", "plan", days=1)
def _cancelled_in_vain() -> Planted:
    return instead(SequenceStore, "end_enrolments", _nothing)


@_plant("other dates are written, and what is owed stays", "plan")
def _never_moved() -> Planted:
    async def replan(self: Any, tx: Any, subjects: Any, reason: str, *, by: Any) -> Any:
        return [Happened(subject=each) for each in subjects]

    def is_changed(self: Any, tx: Any, subjects: Any, reason: str, *, by: Any) -> bool:
        return reason == "booking changed"

    return instead(Enrolling, "replan", replan, where=is_changed)


@_plant("the booking and what is owed about it are two transactions", "plan", days=1, slow=True)
def _agenda_apart() -> Planted:
    async def plan(self: Any, tx: Any, subjects: Any, reason: str, **more: Any) -> Any:
        await tx.session.execute("COMMIT")
        await tx.session.execute("BEGIN")
        return await original(self, tx, subjects, reason, **more)

    def is_of_a_booking(self: Any, tx: Any, subjects: Any, reason: str, **more: Any) -> bool:
        return reason != "sequence changed"

    original = Enrolling._plan
    return instead(Enrolling, "_plan", plan, where=is_of_a_booking)


@_plant("a version is applied to nobody", "plan", days=1, slow=True)
def _applied_to_nobody() -> Planted:
    return answering(SequenceStore, "list_enrolled", lambda *_, **__: [])


@_plant(
    "nobody asks at sending, and what is on its way goes on whatever happens",
    "silence",
    "after_cancel",
    scene=_RUSHED,
    days=1,
    slow=True,
)
def _begun_after_all() -> Planted:
    async def confirm(self: Timebell, session: Any, runs: Any) -> frozenset[Any]:
        return frozenset(runs)

    def going_on(found: Any, *facts: Any, **more: Any) -> Any:
        is_over = found is not None and found["ended_reason"] is not None
        return {**found, "ended_reason": None} if is_over else found

    return several(
        instead(Timebell, "confirm", confirm),
        answering_in(guards, "SequenceStore", "read_wanted", going_on),
    )


@_plant(
    "what may have been sent is forgotten as it is withdrawn, and sent anew when it is planned again",
    "doubled",
    scene=_RUSHED,
    seed=2,
    days=3,
    slow=True,
)
def _sent_anew() -> Planted:
    return answering(SequenceStore, "read_perhaps_sent", lambda *_, **__: set())


@_silence("no message is ever wanted", "untold")
def _never_told() -> Planted:
    return answering_in(guards, "SequenceStore", "read_wanted", lambda *_, **__: None)


@_silence("an event starts what it starts for the primary contact alone", "plan")
def _primary_alone() -> Planted:
    def plan(subject: Any, people: Any, enrolments: Any) -> Any:
        first = [id for id, _ in subject.people][:1]
        return original(subject, {id: each for id, each in people.items() if id in first}, enrolments)

    original = rules.plan
    return instead(enrolling, "plan", plan)


@_silence("bookings do not go on by themselves", "plan", "unturned")
def _left_as_they_are() -> Planted:
    return answering(enrolling, "_by_itself", lambda *_: [])


@_silence("what comes by itself is taken for done and does nothing", "plan", "unturned", slow=True)
def _turned_in_vain() -> Planted:
    async def move_by_itself(self: Any, tx: Any, *facts: Any, **more: Any) -> bool:
        return True

    return instead(Bookings, "move_by_itself", move_by_itself)


@_silence("nothing that is done about a booking is recorded", "audit")
def _nothing_recorded() -> Planted:
    return instead(Bookings, "_record", _nothing)
