"""Bugs to plant in sequences, each a rule of the app left out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation.plants import CALM, Plant, planter, several
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
def _cancelled_in_vain() -> AbstractContextManager[Any]:
    return patch.object(SequenceStore, "end_enrolments", _nothing)


@_plant("other dates are written, and what is owed stays", "plan")
def _never_moved() -> AbstractContextManager[Any]:
    async def replan(self: Any, tx: Any, subjects: Any, reason: str, *, by: Any) -> Any:
        if reason == "booking changed":
            return [Happened(subject=each) for each in subjects]
        return await original(self, tx, subjects, reason, by=by)

    original = Enrolling.replan
    return patch.object(Enrolling, "replan", replan)


@_plant("the booking and what is owed about it are two transactions", "plan", days=1, slow=True)
def _agenda_apart() -> AbstractContextManager[Any]:
    async def plan(self: Any, tx: Any, subjects: Any, reason: str, **more: Any) -> Any:
        if reason != "sequence changed":
            await tx.session.execute("COMMIT")
            await tx.session.execute("BEGIN")
        return await original(self, tx, subjects, reason, **more)

    original = Enrolling._plan
    return patch.object(Enrolling, "_plan", plan)


@_plant("a version is applied to nobody", "plan", days=1)
def _applied_to_nobody() -> AbstractContextManager[Any]:
    async def list_enrolled(self: Any, tx: Any, **terms: Any) -> list[str]:
        return []

    return patch.object(SequenceStore, "list_enrolled", list_enrolled)


@_plant(
    "nobody asks at sending, and what is on its way goes on whatever happens",
    "silence",
    "after_cancel",
    scene=_RUSHED,
    days=1,
    slow=True,
)
def _begun_after_all() -> AbstractContextManager[Any]:
    async def confirm(self: Timebell, session: Any, runs: Any) -> frozenset[Any]:
        return frozenset(runs)

    class Blind(SequenceStore):
        """Sees every enrolment as one that goes on."""

        async def read_wanted(self, tx: Any, *, id: Any) -> Any:
            found = await super().read_wanted(tx, id=id)
            return None if found is None else {**found, "ended_reason": None}

    return several(patch.object(Timebell, "confirm", confirm), patch.object(guards, "SequenceStore", Blind))


@_silence("no message is ever wanted", "untold")
def _never_told() -> AbstractContextManager[Any]:
    class Unseeing(SequenceStore):
        """Sees no message."""

        async def read_wanted(self, tx: Any, *, id: Any) -> Any:
            return None

    return patch.object(guards, "SequenceStore", Unseeing)


@_silence("an event starts what it starts for the primary contact alone", "plan")
def _primary_alone() -> AbstractContextManager[Any]:
    def plan(subject: Any, people: Any, enrolments: Any) -> Any:
        first = [id for id, _ in subject.people][:1]
        return original(subject, {id: each for id, each in people.items() if id in first}, enrolments)

    original = rules.plan
    return patch.object(enrolling, "plan", plan)


@_silence("bookings do not go on by themselves", "plan", "unturned")
def _left_as_they_are() -> AbstractContextManager[Any]:
    return patch.object(enrolling, "_by_itself", lambda subject, settings: [])


@_silence("what comes by itself is taken for done and does nothing", "plan", "unturned", slow=True)
def _turned_in_vain() -> AbstractContextManager[Any]:
    async def move_by_itself(self: Any, tx: Any, *facts: Any, **more: Any) -> bool:
        return True

    return patch.object(Bookings, "move_by_itself", move_by_itself)


@_silence("nothing that is done about a booking is recorded", "audit")
def _nothing_recorded() -> AbstractContextManager[Any]:
    return patch.object(Bookings, "_record", _nothing)
