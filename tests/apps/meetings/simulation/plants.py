"""Bugs to plant in meetings, each a rule of the app left out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from tests.simulation.plants import CALM, Plant, planter, several
from timebell.apps.meetings import guards, notices, rules, service
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


def _forgetting(*statuses: str) -> AbstractContextManager[Any]:
    """What is owed about a meeting stays as it is when it enters one of these states."""

    async def owe(self: Any, tx: Any, meeting: Any, reason: str, *, by: Any) -> AgendaDiff:
        if meeting.status in statuses:
            return AgendaDiff(revision=0)
        return await original(self, tx, meeting, reason, by=by)

    original = Meetings._owe
    return patch.object(Meetings, "_owe", owe)


@_plant("to reschedule forgets the reminders of the old meeting", "plan")
def _reminders_outlive_their_meeting() -> AbstractContextManager[Any]:
    return _forgetting("rescheduled")


@_plant("and nobody asks before they are told, either", "silence", days=1, slow=True)
def _no_guard() -> AbstractContextManager[Any]:
    class Blind(MeetingStore):
        """Sees every meeting as one that is on."""

        async def read_meeting(self, tx: Any, *, id: Any) -> Any:
            found = await super().read_meeting(tx, id=id)
            return None if found is None else replace(found, status="accepted")

    return several(_forgetting("rescheduled", "cancelled"), patch.object(guards, "MeetingStore", Blind))


@_plant(
    "a delivery that asked its guard goes on whatever happens",
    "silence",
    "after_cancel",
    scene=_RUSHED,
    seed=5,
    days=1,
    slow=True,
)
def _begun_after_all() -> AbstractContextManager[Any]:
    async def confirm(self: Timebell, session: Any, runs: Any) -> frozenset[Any]:
        return frozenset(runs)

    return patch.object(Timebell, "confirm", confirm)


@_plant("whoever accepts takes nobody's time", "overlap", "busy")
def _nobody_is_busy() -> AbstractContextManager[Any]:
    async def occupy(self: Any, tx: Any, meeting: Any, slot: Any, *, by: Any) -> None:
        return None

    return patch.object(Busy, "occupy", occupy)


@_plant("each meeting of a lineage is an entry of its own", "uid", slow=True)
def _roots_forgotten() -> AbstractContextManager[Any]:
    async def insert_meeting(self: Any, tx: Any, **facts: Any) -> None:
        await original(self, tx, **{**facts, "root_id": facts["id"]})

    original = MeetingStore.insert_meeting
    return patch.object(MeetingStore, "insert_meeting", insert_meeting)


@_plant("the state and what is owed in it are two transactions", "plan", days=1, slow=True)
def _agenda_apart() -> AbstractContextManager[Any]:
    async def owe(self: Any, tx: Any, meeting: Any, reason: str, *, by: Any) -> AgendaDiff:
        await tx.session.execute("COMMIT")
        await tx.session.execute("BEGIN")
        return await original(self, tx, meeting, reason, by=by)

    original = Meetings._owe
    return patch.object(Meetings, "_owe", owe)


@_plant("a hold that has ended is never removed", "hold", slow=True)
def _held_for_ever() -> AbstractContextManager[Any]:
    async def nothing(self: Any, tx: Any, *facts: Any, **more: Any) -> None:
        return None

    return several(
        patch.object(AvailabilityStore, "free_ended_hold", nothing),
        patch.object(AvailabilityStore, "free_expired", nothing),
    )


@_plant("a denial is told to everybody", "notice", slow=True)
def _denied_to_all() -> AbstractContextManager[Any]:
    async def tell(self: Any, tx: Any, template: str, meeting: Any, recipients: Any, **more: Any) -> None:
        everybody = meeting.participants if template == "meetings.denied" else recipients
        await original(self, tx, template, meeting, everybody, **more)

    original = Meetings._tell
    return patch.object(Meetings, "_tell", tell)


@_silence("nobody is ever reminded of a meeting", "untold")
def _never_reminded() -> AbstractContextManager[Any]:
    class Unseeing(MeetingStore):
        """Sees no meeting."""

        async def read_meeting(self, tx: Any, *, id: Any) -> Any:
            return None

    return patch.object(guards, "MeetingStore", Unseeing)


@_silence("a reminder is withdrawn as soon as it is owed", "plan", slow=True)
def _no_reminder_owed() -> AbstractContextManager[Any]:
    def plan_of(meeting: Any, settings: Any) -> Any:
        return replace(rules.plan_of(meeting, settings), reminders=())

    return patch.object(service, "plan_of", plan_of)


@_silence("a reminder is of no use a good while before its meeting begins", "untold", "unreminded", slow=True)
def _expired_too_soon() -> AbstractContextManager[Any]:
    def reminders(meeting: Any, plan: Any, settings: Any) -> Any:
        expires_at = plan.slot.start - timedelta(minutes=30)
        return [
            (replace(tell, expires_at=expires_at), step)
            for tell, step in notices.reminders(meeting, plan, settings)
        ]

    return patch.object(service, "reminders", reminders)


@_silence("nobody hears that they are asked, or added, or removed", "notice")
def _nobody_is_asked() -> AbstractContextManager[Any]:
    async def tell(self: Any, tx: Any, template: str, *facts: Any, **more: Any) -> None:
        if template not in ("meetings.proposed", "meetings.added", "meetings.removed"):
            await original(self, tx, template, *facts, **more)

    original = Meetings._tell
    return patch.object(Meetings, "_tell", tell)


@_silence("nothing that is done about a meeting is recorded", "audit")
def _nothing_recorded() -> AbstractContextManager[Any]:
    async def record(self: Any, tx: Any, *facts: Any) -> None:
        return None

    return several(patch.object(Meetings, "_record", record), patch.object(Holds, "_record", record))


@_silence("what is done about a meeting is recorded, but for one verb", "audit", slow=True)
def _one_verb_unrecorded() -> AbstractContextManager[Any]:
    async def record(self: Any, tx: Any, name: str, *facts: Any) -> None:
        if name != "meeting.denied":
            await original(self, tx, name, *facts)

    original = Meetings._record
    return patch.object(Meetings, "_record", record)
