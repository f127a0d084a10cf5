"""Bugs to plant in what tells people things, each a rule of notify left out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.database import altered
from tests.simulation.loop import VirtualLoop
from tests.simulation.planting import Planted, answering, instead, several
from tests.simulation.plants import CALM, Plant, planter
from tests.simulation.scene import Scene
from tests.simulation.wire import START
from timebell.kernel import Snooze, Timebell
from timebell.notify.delivery import delivering
from timebell.notify.delivery.calling import Caller
from timebell.notify.delivery.delivering import Deliverer
from timebell.notify.delivery.desk import Desk, Started
from timebell.notify.delivery.sending import Sender
from timebell.notify.rules.deciding import Skip
from timebell.notify.store import NotifyStore

_TOLD = Scene(
    enqueues_a_day=0,
    plans_a_day=0,
    holds_a_day=0,
    poisons_a_day=0,
    tells_a_day=70,
    visits_a_day=12,
    kills_a_day=10,
    pauses_a_day=12,
    cuts_a_day=2,
    stops_a_day=2,
    rush=0.1,
)

# With nothing that could explain a silence.
_QUIETLY = replace(CALM, tells_a_day=20)

NOTE_PLANTS: list[Plant] = []
_plant = planter(NOTE_PLANTS, _TOLD)


def _now() -> datetime:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return START + timedelta(microseconds=loop.now_us)


@_plant("an attempt is written with its answer, not before the call", "unwritten", "twice")
def _attempt_written_late() -> Planted:
    unwritten: dict[Any, Any] = {}

    async def start(self: Any, starts: Sequence[Any]) -> Sequence[Started]:
        made = [Started(delivery_id=self._ids.new(), number=1, started_at=_now()) for _ in starts]
        unwritten.update((each.delivery_id, start) for each, start in zip(made, starts, strict=True))
        return made

    async def record(self: Any, answers: Sequence[Any]) -> Any:
        written = []
        for answer in answers:
            start = unwritten.pop(answer.delivery_id, None)
            if start is not None:
                (started,) = await original_start(self, [start])
                assert started is not None
                answer = replace(answer, delivery_id=started.delivery_id, number=started.number)
            written.append(answer)
        return await original_record(self, written)

    original_start, original_record = Desk._start, Desk._record
    return several(instead(Desk, "_start", start), instead(Desk, "_record", record))


@_plant("every attempt has a key of its own", "twice")
def _key_by_attempt() -> Planted:
    def parcel(
        made: Any, self: Any, facts: Any, candidate: Any, content: Any, started: Any, first_tried_at: Any
    ) -> Any:
        return replace(made, key=f"{made.key}-{started.number}")

    return answering(Caller, "_parcel", parcel)


@_plant("an inbox does not know what it has shown", "inbox", seed=2)
def _inbox_forgets() -> Planted:
    is_there = "EXISTS (SELECT FROM timebell_notify.inbox i WHERE i.tenant = a.tenant AND i.id = a.id)"
    again = "CASE WHEN EXISTS (SELECT FROM timebell_notify.inbox i WHERE i.id = f.id) THEN f.delivery_id ELSE f.id END"
    forgetful = {
        f"WHERE NOT {is_there}": "WHERE true",
        "        f.id, f.type,": f"        {again}, f.type,",
        "FROM shown s JOIN fresh f ON": "FROM shown s JOIN fresh f ON false AND",
    }
    return altered(NotifyStore, "show_entries", forgetful)


async def _confirm_all(self: Timebell, session: Any, runs: Sequence[Any]) -> frozenset[Any]:
    return frozenset(runs)


@_plant(
    "a node that stood still goes on with what another has, or nobody wants",
    "after_cancel",
    "truth",
    "twice",
    "quiet",
    seed=4,
    days=1,
    slow=True,
)
def _unconfirmed() -> Planted:
    return instead(Timebell, "confirm", _confirm_all)


@_plant(
    "what is held waits in memory too, and does not hear of a withdrawal",
    "after_cancel",
    "twice",
    "unsettled",
    seed=2,
    slow=True,
)
def _held_in_memory() -> Planted:
    async def call(self: Any, job: Any) -> Any:
        outcome = await original(self, job)
        if isinstance(outcome, Snooze) and outcome.until is not None:
            waiting = asyncio.create_task(again(self, job, outcome.until))
            kept.add(waiting)
        return outcome

    async def again(self: Any, job: Any, until: datetime) -> None:
        await asyncio.sleep((until - _now()).total_seconds())
        await original(self, job)

    kept: set[Any] = set()
    original = Deliverer.__call__
    return several(
        instead(Deliverer, "__call__", call),
        instead(Timebell, "confirm", _confirm_all),
        altered(NotifyStore, "read_facts", {"n.settled_at IS NOT NULL AS is_settled": "false AS is_settled"}),
    )


@_plant("an attempt that a crash cut off counts as never made", "twice", "truth", days=1, slow=True)
def _crash_forgotten() -> Planted:
    async def mend(self: Any, known: Any) -> Any:
        return replace(known, tried=tuple(replace(each, is_open=False) for each in known.tried))

    return instead(Sender, "mend", mend)


@_plant("every second notification is skipped", "untold", scene=_QUIETLY)
def _every_second_skipped() -> Planted:
    def is_second(facts: Any) -> bool:
        count[0] += 1
        return bool(count[0] % 2)

    count = [0]
    return instead(delivering, "decide_whole", lambda facts: Skip(reason="no_channel"), where=is_second)


@_plant("what is to be told in several ways is told in one", "untold", scene=_QUIETLY)
def _first_leg_only() -> Planted:
    return answering(delivering, "legs_of", lambda legs, *_: legs[:1])
