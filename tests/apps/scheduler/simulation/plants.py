"""Bugs to plant in the scheduler, each a rule of the app left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.planting import Planted, answering, instead, several
from tests.simulation.plants import CALM, Plant, planter
from timebell.apps.scheduler import dues, handlers, intake, letters, rules, service, store
from timebell.brokers import Intake, Received, Returned
from timebell.kernel import Done
from timebell.kernel.holds import Holds
from timebell.kernel.schedules.replanning import Replanner

PLANTS: list[Plant] = []
_CALM = replace(CALM, requests_a_day=40, stops_a_day=0)
_CROWDED = replace(_CALM, requests_a_day=160)
_FAULTY = replace(_CALM, requests_a_day=60, broker_faults_a_day=20)
_DEADLY = replace(_FAULTY, kills_a_day=12, pauses_a_day=3, rush=0.2)
_HARSH = replace(_DEADLY, requests_a_day=120, pauses_a_day=6, cuts_a_day=6, stops_a_day=3, rush=0.4)
_plant = planter(PLANTS, _CALM)


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
    return instead(intake.IntakeLoop, "tick", tick)


@_plant("whatever the broker answers is taken for a confirm", "unfired", "rows", scene=_FAULTY, days=0.3)
def _confirmed_by_anything() -> Planted:
    return instead(handlers._Room, "_not_published", lambda self, due, published: Done())


@_plant("what no queue took is done", "unfired", "rows", scene=_FAULTY, slow=True)
def _returned_is_done() -> Planted:
    def is_returned(self: Any, due: Any, published: Any) -> bool:
        return isinstance(published, Returned)

    return instead(handlers._Room, "_not_published", lambda self, due, published: Done(), where=is_returned)


@_plant("a request is done before it is published", "unfired", "rows", "truth", scene=_FAULTY, slow=True)
def _done_before_it_is_published() -> Planted:
    async def publish(self: Any, attempts: Any, *facts: Any) -> None:
        for attempt in attempts:
            handlers._answer(attempt, Done())
        await original(self, attempts, *facts)

    original = handlers._Room._publish
    return instead(handlers._Room, "_publish", publish)


@_plant("a cancel that came first is forgotten", "after_cancel", days=0.2)
def _no_tombstones() -> Planted:
    def second(found: Any, known: Any, request: Any) -> Any:
        return "new" if known.status is None else found

    return answering(rules, "second", second)


@_plant("a message that nobody can read is acknowledged, and no copy of it is kept", "letters", days=0.1)
def _no_copies() -> Planted:
    async def tick(self: Any) -> None:
        received, _ = await self._waiting.get()
        await self._intake.acknowledge([received])

    return instead(letters.Letters, "tick", tick)


# What is cancelled is looked at once more before it is published, so that it takes two bugs to publish it.
def _unlooked() -> Planted:
    def read(rows: Any, *facts: Any) -> Any:
        return [row if row["unwanted"] is None else {**row, "unwanted": None} for row in rows]

    return answering(handlers._Room, "_read", read)


@_plant("a cancel leaves the job of what is due once", "after_cancel", "unkept", slow=True)
def _cancelled_and_owed() -> Planted:
    async def withdraw_job(self: Any, tx: Any, id: Any, reason: str) -> bool:
        return True

    return several(_unlooked(), instead(service.Scheduler, "_withdraw_job", withdraw_job))


@_plant("a cancel forgets what is due and waits", "after_cancel", scene=_DEADLY, days=1, slow=True)
def _cancelled_and_waiting() -> Planted:
    async def withdraw_waiting(self: Any, *facts: Any) -> None:
        return None

    return several(_unlooked(), instead(Replanner, "_withdraw_waiting", withdraw_waiting))


@_plant("a request that is over is taken for a new one", "refired", "rows", slow=True)
def _over_and_owed_again() -> Planted:
    def second(found: Any, known: Any, request: Any) -> Any:
        return "timing" if known.status == "done" else found

    async def withdraw_job(self: Any, tx: Any, id: Any, reason: str) -> bool:
        await withdraw(self, tx, id, reason)
        return True

    withdraw = service.Scheduler._withdraw_job
    return several(
        answering(rules, "second", second),
        instead(service.Scheduler, "_withdraw_job", withdraw_job),
    )


@_plant("another time for what is pending is ignored", "unkept", slow=True)
def _never_retimed() -> Planted:
    return answering(rules, "second", lambda found, *_: "same" if found == "timing" else found)


@_plant("another time calls off what is being published", "unfired", "rows", scene=_HARSH, days=1, slow=True)
def _called_off() -> Planted:
    async def makes_way(self: Any, tx: Any, id: Any) -> bool:
        return bool(await self._withdraw_job(tx, id, "replaced"))

    return instead(service.Scheduler, "_makes_way", makes_way)


@_plant("two processes take one request", "rows", scene=_CROWDED, slow=True)
def _taken_twice() -> Planted:
    def insert_requests(count: int, self: Any, tx: Any, *, columns: Any) -> int:
        return len(columns["ids"])

    return answering(store.SchedulerStore, "insert_requests", insert_requests)


@_plant("of what was missed only the last is made up for", "unfired", scene=_DEADLY, days=1, slow=True)
def _fire_all_is_fire_once() -> Planted:
    original = rules.catch_up_of
    return instead(
        rules, "catch_up_of", lambda _: original("fire_once"), where=lambda misfire: misfire == "fire_all"
    )


@_plant("what is to be left out when it is late is made up for", "strange", scene=_DEADLY, days=1, slow=True)
def _skip_is_fire_all() -> Planted:
    original = rules.catch_up_of
    return instead(
        rules, "catch_up_of", lambda _: original("fire_all"), where=lambda misfire: misfire == "skip"
    )


@_plant("every message is for the broker's own tenant", "strange", "unkept", "rows", slow=True)
def _one_tenant() -> Planted:
    def whose(_: Any, asked: Any, *, own: str, is_trusted: bool) -> str:
        return own

    return answering(intake, "whose", whose)


@_plant("a broker that is back is not noticed", "unfired", "rows", scene=_FAULTY, slow=True)
def _held_for_ever() -> Planted:
    return instead(
        Holds, "release", lambda self, queue: None, where=lambda self, queue: queue in self.reasons
    )


@_plant("what recurs and was published is not counted", "rows", slow=True)
def _uncounted() -> Planted:
    async def note(self: Any, attempt: Any, due: Any) -> None:
        handlers._answer(attempt, Done())

    return instead(handlers._Room, "_note", note)


@_plant("a duplicate has a name of its own", "strange", slow=True)
def _named_by_the_time() -> Planted:
    def message_of(made: Any, due: Any) -> Any:
        return replace(made, message_id=f"{due.tenant}/{due.id}/{dues.written(due.fired_at)}")

    return answering(handlers, "message_of", message_of)
