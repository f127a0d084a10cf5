"""Bugs to plant in the scheduler, each a rule of the app left out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation import plants as plants_of_jobs
from tests.simulation.plants import CALM, Plant, planter, several
from timebell.apps.scheduler import dues, handlers, intake, letters, rules, service, store
from timebell.brokers import Confirmed, Intake, Received, Returned
from timebell.kernel.holds import Holds
from timebell.kernel.schedule_planning import PlanWriter

PLANTS: list[Plant] = []
_CALM = replace(CALM, requests_a_day=40, stops_a_day=0)
_CROWDED = replace(_CALM, requests_a_day=160)
_FAULTY = replace(_CALM, requests_a_day=60, broker_faults_a_day=20)
_DEADLY = replace(_FAULTY, kills_a_day=12, pauses_a_day=3, rush=0.2)
_HARSH = replace(_DEADLY, requests_a_day=120, pauses_a_day=6, cuts_a_day=6, stops_a_day=3, rush=0.4)
_plant = planter(PLANTS, _CALM)

Planted = AbstractContextManager[Any]


class _AtOnce:
    """Acknowledges what it takes as soon as it has it."""

    def __init__(self, taking: Intake) -> None:
        self._taking = taking

    async def take(self, most: int) -> Sequence[Received]:
        received = await self._taking.take(most)
        await self._taking.acknowledge(received)
        return received

    async def acknowledge(self, received: Sequence[Received]) -> None:
        return None


@_plant("what comes in is acknowledged before the commit", "unkept", days=0.2)
def _acknowledged_first() -> Planted:
    async def tick(self: Any, taking: Any, given_up: Any) -> bool:
        return await original(self, _AtOnce(taking), given_up)  # type: ignore[arg-type]

    original = intake.IntakeLoop.tick
    return patch.object(intake.IntakeLoop, "tick", tick)


@_plant("whatever the broker answers is taken for a confirm", "unfired", "rows", scene=_FAULTY, days=0.3)
def _confirmed_by_anything() -> Planted:
    return patch.object(handlers, "Confirmed", object)


@_plant("what no queue took is done", "unfired", "rows", scene=_FAULTY, slow=True)
def _returned_is_done() -> Planted:
    return patch.object(handlers, "Confirmed", (Confirmed, Returned))


@_plant("a request is done before it is published", "unfired", "rows", "truth", scene=_FAULTY, slow=True)
def _done_before_it_is_published() -> Planted:
    return plants_of_jobs._finish_first()


@_plant("a cancel that came first is forgotten", "after_cancel", days=0.2)
def _no_tombstones() -> Planted:
    def second(known: Any, request: Any) -> Any:
        return "new" if known.status is None else original(known, request)

    original = rules.second
    return patch.object(rules, "second", second)


@_plant("a message that nobody can read is acknowledged, and no copy of it is kept", "letters", days=0.1)
def _no_copies() -> Planted:
    async def tick(self: Any) -> None:
        received, _ = await self._waiting.get()
        await self._intake.acknowledge([received])

    return patch.object(letters.Letters, "tick", tick)


# What is cancelled is looked at once more before it is published, so that it takes two bugs to publish it.
async def _read_unlooked(self: Any, jobs: Any) -> Any:
    return [{**row, "unwanted": None} for row in await _READ(self, jobs)]


_READ = handlers._Room._read
_UNLOOKED = patch.object(handlers._Room, "_read", _read_unlooked)


@_plant("a cancel leaves the job of what is due once", "after_cancel", "unkept", slow=True)
def _cancelled_and_owed() -> Planted:
    async def withdraw_job(self: Any, tx: Any, id: Any, reason: str) -> bool:
        return True

    return several(_UNLOOKED, patch.object(service.Scheduler, "_withdraw_job", withdraw_job))


@_plant("a cancel forgets what is due and waits", "after_cancel", scene=_DEADLY, days=1, slow=True)
def _cancelled_and_waiting() -> Planted:
    async def withdraw_waiting(self: Any, *facts: Any) -> None:
        return None

    return several(_UNLOOKED, patch.object(PlanWriter, "_withdraw_waiting", withdraw_waiting))


@_plant("a request that is over is taken for a new one", "refired", "rows", slow=True)
def _over_and_owed_again() -> Planted:
    def second(known: Any, request: Any) -> Any:
        return "timing" if known.status == "done" else original(known, request)

    async def withdraw_job(self: Any, tx: Any, id: Any, reason: str) -> bool:
        await withdraw(self, tx, id, reason)
        return True

    original, withdraw = rules.second, service.Scheduler._withdraw_job
    return several(
        patch.object(rules, "second", second),
        patch.object(service.Scheduler, "_withdraw_job", withdraw_job),
    )


@_plant("another time for what is pending is ignored", "unkept", slow=True)
def _never_retimed() -> Planted:
    def second(known: Any, request: Any) -> Any:
        found = original(known, request)
        return "same" if found == "timing" else found

    original = rules.second
    return patch.object(rules, "second", second)


@_plant("another time calls off what is being published", "unfired", "rows", scene=_HARSH, days=1, slow=True)
def _called_off() -> Planted:
    async def makes_way(self: Any, tx: Any, id: Any) -> bool:
        return bool(await self._withdraw_job(tx, id, "replaced"))

    return patch.object(service.Scheduler, "_makes_way", makes_way)


@_plant("two processes take one request", "rows", scene=_CROWDED, slow=True)
def _taken_twice() -> Planted:
    async def insert_requests(self: Any, tx: Any, *, columns: Any) -> int:
        await original(self, tx, columns=columns)
        return len(columns["ids"])

    original = store.SchedulerStore.insert_requests
    return patch.object(store.SchedulerStore, "insert_requests", insert_requests)


@_plant("of what was missed only the last is made up for", "unfired", scene=_DEADLY, days=1, slow=True)
def _fire_all_is_fire_once() -> Planted:
    def catch_up_of(misfire: Any) -> Any:
        return original("fire_once" if misfire == "fire_all" else misfire)

    original = rules.catch_up_of
    return patch.object(rules, "catch_up_of", catch_up_of)


@_plant("what is to be left out when it is late is made up for", "strange", scene=_DEADLY, days=1, slow=True)
def _skip_is_fire_all() -> Planted:
    def catch_up_of(misfire: Any) -> Any:
        return original("fire_all" if misfire == "skip" else misfire)

    original = rules.catch_up_of
    return patch.object(rules, "catch_up_of", catch_up_of)


@_plant("every message is for the broker's own tenant", "strange", "unkept", "rows", slow=True)
def _one_tenant() -> Planted:
    def whose(asked: Any, *, own: str, is_trusted: bool) -> str:
        return own

    return patch.object(intake, "whose", whose)


@_plant("a broker that is back is not noticed", "unfired", "rows", scene=_FAULTY, slow=True)
def _held_for_ever() -> Planted:
    return patch.object(Holds, "release", lambda self, queue: None)


@_plant("what recurs and was published is not counted", "rows", slow=True)
def _uncounted() -> Planted:
    async def note(self: Any, attempt: Any, due: Any) -> None:
        attempt.outcome.set_result(None)

    return patch.object(handlers._Room, "_note", note)


@_plant("a duplicate has a name of its own", "strange", slow=True)
def _named_by_the_time() -> Planted:
    def message_of(due: Any) -> Any:
        return replace(dues.message_of(due), message_id=f"{due.tenant}/{due.id}/{dues.written(due.fired_at)}")

    return patch.object(handlers, "message_of", message_of)
