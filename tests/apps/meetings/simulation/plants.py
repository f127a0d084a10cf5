"""Bugs to plant in meetings, each a rule of the app left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.simulation.planting import Planted, answering, answering_in, instead, several
from tests.simulation.plants import CALM, Plant, planter
from timebell.apps.meetings import guards, service
from timebell.apps.meetings.busy import Busy
from timebell.apps.meetings.holds import Holds
from timebell.apps.meetings.service import Meetings
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.store_availability import AvailabilityStore
from timebell.kernel import AgendaDiff, Timebell

PLANTS: list[Plant] = []
_MET = replace(CALM, meetings_a_day=8, kills_a_day=4, pauses_a_day=3, stops_a_day=1, rush=0.25)
# Somebody changes their mind about nearly every meeting just when its reminders are on their way.
_RUSHED = replace(CALM, meetings_a_day=16, pauses_a_day=4, rush=0.8)
_CALM = replace(CALM, meetings_a_day=4)
_plant = planter(PLANTS, _MET)
_silence = planter(PLANTS, _CALM)


def _forgetting(*statuses: str) -> Planted:
    """What is owed about a meeting stays as it is when it enters one of these states."""

    async def owe(self: Any, tx: Any, meeting: Any, reason: str, *, by: Any) -> AgendaDiff:
        return AgendaDiff(revision=0)

    def enters(self: Any, tx: Any, meeting: Any, reason: str, *, by: Any) -> bool:
        return meeting.status in statuses

    return instead(Meetings, "_owe", owe, where=enters)


@_plant("to reschedule forgets the reminders of the old meeting", "plan")
def _reminders_outlive_their_meeting() -> Planted:
    return _forgetting("rescheduled")


@_plant("and nobody asks before they are told, either", "silence", days=1, slow=True)
def _no_guard() -> Planted:
    def on(found: Any, *facts: Any, **more: Any) -> Any:
        return None if found is None else replace(found, status="accepted")

    return several(
        _forgetting("rescheduled", "cancelled"), answering_in(guards, "MeetingStore", "read_meeting", on)
    )


@_plant(
    "a delivery that asked its guard goes on whatever happens",
    "silence",
    "after_cancel",
    scene=_RUSHED,
    seed=5,
    days=1,
    slow=True,
)
def _begun_after_all() -> Planted:
    async def confirm(self: Timebell, session: Any, runs: Any) -> frozenset[Any]:
        return frozenset(runs)

    return instead(Timebell, "confirm", confirm)


@_plant("whoever accepts takes nobody's time", "overlap", "busy")
def _nobody_is_busy() -> Planted:
    async def occupy(self: Any, tx: Any, meeting: Any, slot: Any, *, by: Any) -> None:
        return None

    return instead(Busy, "occupy", occupy)


@_plant("each meeting of a lineage is an entry of its own", "uid", slow=True)
def _roots_forgotten() -> Planted:
    async def insert_meeting(self: Any, tx: Any, **facts: Any) -> None:
        await original(self, tx, **{**facts, "root_id": facts["id"]})

    original = MeetingStore.insert_meeting
    return instead(MeetingStore, "insert_meeting", insert_meeting)


@_plant("the state and what is owed in it are two transactions", "plan", days=1, slow=True)
def _agenda_apart() -> Planted:
    async def owe(self: Any, tx: Any, meeting: Any, reason: str, *, by: Any) -> AgendaDiff:
        await tx.session.execute("COMMIT")
        await tx.session.execute("BEGIN")
        return await original(self, tx, meeting, reason, by=by)

    original = Meetings._owe
    return instead(Meetings, "_owe", owe)


@_plant("a hold that has ended is never removed", "hold", slow=True)
def _held_for_ever() -> Planted:
    async def nothing(self: Any, tx: Any, *facts: Any, **more: Any) -> None:
        return None

    return several(
        instead(AvailabilityStore, "free_ended_hold", nothing),
        instead(AvailabilityStore, "free_expired", nothing),
    )


@_plant("a denial is told to everybody", "notice", slow=True)
def _denied_to_all() -> Planted:
    async def tell(self: Any, tx: Any, template: str, meeting: Any, recipients: Any, **more: Any) -> None:
        await original(self, tx, template, meeting, meeting.participants, **more)

    def is_denied(self: Any, tx: Any, template: str, *facts: Any, **more: Any) -> bool:
        return template == "meetings.denied"

    original = Meetings._tell
    return instead(Meetings, "_tell", tell, where=is_denied)


@_silence("nobody is ever reminded of a meeting", "untold")
def _never_reminded() -> Planted:
    return answering_in(guards, "MeetingStore", "read_meeting", lambda *_, **__: None)


@_silence("a reminder is withdrawn as soon as it is owed", "plan", slow=True)
def _no_reminder_owed() -> Planted:
    return answering(service, "plan_of", lambda plan, *_: replace(plan, reminders=()))


@_silence("a reminder is of no use a good while before its meeting begins", "untold", "unreminded", slow=True)
def _expired_too_soon() -> Planted:
    def reminders(made: Any, meeting: Any, plan: Any, settings: Any) -> Any:
        expires_at = plan.slot.start - timedelta(minutes=30)
        return [(replace(tell, expires_at=expires_at), step) for tell, step in made]

    return answering(service, "reminders", reminders)


@_silence("nobody hears that they are asked, or added, or removed", "notice")
def _nobody_is_asked() -> Planted:
    async def tell(self: Any, tx: Any, template: str, *facts: Any, **more: Any) -> None:
        return None

    def is_so(self: Any, tx: Any, template: str, *facts: Any, **more: Any) -> bool:
        return template in ("meetings.proposed", "meetings.added", "meetings.removed")

    return instead(Meetings, "_tell", tell, where=is_so)


@_silence("nothing that is done about a meeting is recorded", "audit")
def _nothing_recorded() -> Planted:
    async def record(self: Any, tx: Any, *facts: Any) -> None:
        return None

    return several(instead(Meetings, "_record", record), instead(Holds, "_record", record))


@_silence("what is done about a meeting is recorded, but for one verb", "audit", slow=True)
def _one_verb_unrecorded() -> Planted:
    async def record(self: Any, tx: Any, *facts: Any) -> None:
        return None

    return instead(Meetings, "_record", record, where=lambda self, tx, name, *facts: name == "meeting.denied")
