"""Digests: how many of them one process composes a second for people whose five o'clock is one instant, and how late
jobs and reminders begin meanwhile."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bench.ours.digests_ground import (
    APPS,
    COMPOSED,
    ENQUEUE,
    OTHERS,
    add_meetings,
    add_people,
    add_workers,
)
from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import Ground, close, throwaway
from timebell.bench.late import percentile
from timebell.engine import Engine
from timebell.kernel import App, Enqueue, Handler, Job, Timebell
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.loading import load_apps
from timebell.notify import notify_app
from timebell.providers.log import Log

KIND: Final = "bench.late"
_AHEAD: Final = timedelta(seconds=2)
_LOAD_EVERY_SECONDS: Final = 0.25
_LOOK_EVERY_SECONDS: Final = 0.05
_LOOKS_MAX: Final = 1_000_000
_DEADLINE_SECONDS: Final = 800.0
_MEETINGS_MIN: Final = 10
_PEOPLE_PER_MEETING: Final = 250
_UNTOLD: Final = (
    "SELECT count(*) FROM timebell_notify.notifications WHERE tenant = 'default' AND settled_at IS NULL"
)
_WRITTEN: Final = """
    SELECT count(*), count(DISTINCT recipient_id) FROM timebell_notify.notifications WHERE tenant = 'default'
"""
_REMINDED: Final = """
    SELECT extract(epoch FROM d.sent_at - n.due_at)::float8 * 1000 AS late
    FROM timebell_notify.notifications n
    JOIN timebell_notify.deliveries d ON d.tenant = n.tenant AND d.notification_id = n.id
    WHERE n.tenant = $1 AND n.template = 'meetings.reminder' AND n.due_at BETWEEN $2 AND $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What composing cost, and by how many milliseconds what was due meanwhile was late."""

    cost: Cost
    seconds: float
    late: dict[str, list[float]]


async def digests(*, people: int, rate: int, sends: bool, data: Path | None = None) -> dict[str, Any]:
    """`sends`: the same process sends the mails meanwhile; otherwise they wait."""
    async with throwaway(data, load_apps(APPS)) as ground:
        measured = await _measure(ground, people, rate, sends)
    result = {
        "bench": "digests_and_mails" if sends else "digests",
        "people": people,
        "rate": rate,
        "seconds": round(measured.seconds, 1),
        "timebell": measured.cost.per_job(people),
        **{f"late_{name}": _lateness(late) for name, late in measured.late.items()},
    }
    return {**result, "bars": beside_bars(result)}


def _lateness(milliseconds: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(milliseconds)
    if not ordered:
        return {"n": 0, "p50_ms": None, "p99_ms": None, "max_ms": None}
    return {
        "n": len(ordered),
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
        "max_ms": round(ordered[-1], 3),
    }


async def _measure(ground: Ground, people: int, rate: int, sends: bool) -> Measured:
    async with _opened(ground) as house:
        bell = house.bell
        at = _five_o_clock(await _now(bell))
        await add_people(bell, ground, people)
        await add_workers(ground, at)
        if not sends:
            async with bell.transaction() as tx:
                await bell.pause(tx, "notify")
        first = await add_meetings(bell, _MEETINGS_MIN + people // _PEOPLE_PER_MEETING)
        async with house.running():
            await asyncio.sleep(max(0.0, (first - await _now(bell)).total_seconds()))
            load = asyncio.create_task(house.load(rate))
            try:
                began, meter = await _now(bell), Meter(ground.server_pid)
                async with bell.transaction() as tx:
                    await bell.enqueue(tx, ENQUEUE, {"timezone": "UTC", "original_local": _wall(at)})
                async with asyncio.timeout(_DEADLINE_SECONDS):
                    await house.wait_until_composed(people)
                    cost = meter.read()
                    if sends:
                        await _wait_until_sent(bell)
                ended = await _now(bell)
            finally:
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)
            await asyncio.sleep(_AHEAD.total_seconds() + 1)
        async with bell.database.connection() as session:
            written = await session.connection.fetchrow(_WRITTEN)
            rows = await session.connection.fetch(_REMINDED, OTHERS, began, ended)
        if tuple(written) != (people, people):
            raise RuntimeError(f"{written[0]} digests for {written[1]} of {people} people")
    late = {
        "own": house.late[DEFAULT_TENANT],
        "others": house.late[OTHERS],
        "reminders": [row["late"] for row in rows],
    }
    return Measured(cost=cost, seconds=(ended - began).total_seconds(), late=late)


class House:
    """One process with everything that runs in it, and what it notes."""

    def __init__(self) -> None:
        self.late: defaultdict[str, list[float]] = defaultdict(list)
        self.bell: Timebell
        self._engine: Engine

    def app(self) -> App:
        return App(name="bench", handlers={KIND: Handler(run=self._note, mode="plain")})

    def open(self, bell: Timebell) -> None:
        self.bell = bell
        self._engine = Engine(bell)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self._engine.start()
        try:
            yield
        finally:
            await self._engine.stop()

    async def load(self, rate: int) -> None:
        """Jobs of the tenant with the digests and of another, each due at some instant of the next two seconds."""
        while True:
            now = self._engine.timekeeper.now()
            for tenant in (DEFAULT_TENANT, OTHERS):
                jobs = [
                    Enqueue(kind=KIND, due_at=(now + _AHEAD * self.bell.chance.fraction()).astimezone(UTC))
                    for _ in range(max(1, round(rate * _LOAD_EVERY_SECONDS)))
                ]
                async with self.bell.transaction(tenant=tenant) as tx:
                    await self.bell.enqueue_many(tx, jobs)
            await asyncio.sleep(_LOAD_EVERY_SECONDS)

    async def wait_until_composed(self, people: int) -> None:
        for _ in range(_LOOKS_MAX):
            if sum(self.bell.tallies.counted[COMPOSED].values()) >= people:
                break
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _note(self, job: Job) -> None:
        self.late[job.tenant].append((self._engine.timekeeper.now() - job.due_at) / timedelta(milliseconds=1))


@asynccontextmanager
async def _opened(ground: Ground) -> AsyncIterator[House]:
    house = House()
    bell = await ground.open(notify_app([Log()]), *load_apps(APPS), house.app())
    try:
        house.open(bell)
        yield house
    finally:
        await close(bell)


async def _wait_until_sent(bell: Timebell) -> None:
    while True:
        async with bell.database.connection() as session:
            if not await session.connection.fetchval(_UNTOLD):
                return
        await asyncio.sleep(1)


async def _now(bell: Timebell) -> datetime:
    async with bell.database.connection() as session:
        return await bell.store.read_clock(session)


def _five_o_clock(now: datetime) -> datetime:
    """The one before; the schedule of a zone asks for the digests of such an instant."""
    today = now.astimezone(UTC).replace(hour=5, minute=0, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def _wall(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat()
