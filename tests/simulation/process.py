"""Simulated processes: nodes with a real engine, callers without one, and the bus that hints travel on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from datetime import datetime
from typing import Any
from unittest.mock import patch

from tests.simulation.database import SimulatedDatabase, altered
from tests.simulation.loop import LIFE, Life, VirtualLoop
from tests.simulation.wire import Wire
from timebell.clock import Chance
from timebell.config import Settings, Tuning
from timebell.db.wakeup import Wakeups, encode
from timebell.engine import Engine, pruner
from timebell.engine import engine as engine_module
from timebell.engine.limits import limits, parking
from timebell.engine.store import EngineStore
from timebell.engine.watch.watching import Watch
from timebell.engine.worker import attempts, marks, returns, worker
from timebell.kernel import App, Registry, Timebell
from timebell.kernel.aside import Threads, Turns
from timebell.kernel.events.audit import Audit
from timebell.notify import Notify
from timebell.server import opened_apps, taking_in
from timebell.testing.database import TestDatabase

LEASE_SECONDS = 8 * 3600.0
# What is due later than this is read ahead of its time, also where no hint told of it.
READ_AHEAD_SECONDS = 5 * 3600.0
_POOL_SIZE = 6
# Statements are what a simulation pays for, so what production does by the second is done by the hour here. The
# proportions are those of production; the limits of the settings are not meant for this. How soon a plain job that
# waited in memory is asked for again is not stretched, or it would run for hours after its cancel.
_STRETCHED = {
    "lease_seconds": LEASE_SECONDS,
    "lease_margin_seconds": 1800.0,
    "sweep_seconds": 4 * 3600.0,
    # Occurrences are planned for half a day ahead, so that it takes the planner to have them.
    "horizon_days": 0.5,
    "tuning": Tuning(
        read_ahead_seconds=READ_AHEAD_SECONDS, full_sweep_seconds=12 * 3600.0, plan_seconds=3 * 3600.0
    ),
    "alert_seconds": 86_400.0,
    "job_timeout_seconds": 12 * 3600.0,
    "retry_delays_seconds": (20.0, 300.0, 1800.0),
}

# What no hint tells a node of, since it was lost, is seen at the next sweep after it is due.
SEEN_SECONDS = 4.5 * 3600.0

# Longer than any lease lasts, unless the clock was set back.
AGES = {"interval '10 minutes'": "interval '10 days'"}


def stretched_settings(url: str, name: str) -> Settings:
    settings = Settings(
        database_url=url,
        node_name=name,
        pool_size=_POOL_SIZE,
        requests_per_minute=1_000_000,
        payment_provider="simulator",
        # In the end it is looked at who was told what, also in a world that lasts a year.
        delivery_days=3_650,
    )
    for field, value in _STRETCHED.items():
        object.__setattr__(settings, field, value)
    return settings


@contextmanager
def stretched_loops() -> Iterator[None]:
    """The beats that no setting governs, by the hour as well."""
    with (
        patch.object(engine_module, "_LISTEN_EVERY_SECONDS", 86_400.0),
        patch.object(pruner, "EVERY_SECONDS", 86_400.0),
        patch.object(attempts, "_WATCH_SECONDS", 600.0),
        patch.object(returns, "_BEHIND_AN_EARLIER_STEP_SECONDS", 900.0),
        patch.object(worker, "LOOK_AGAIN_SECONDS", 60.0),
        patch.object(marks, "LOOK_AGAIN_SECONDS", 60.0),
        patch.object(parking, "LOOK_AGAIN_SECONDS", 60.0),
        patch.object(returns, "LOOK_AGAIN_SECONDS", 60.0),
        patch.object(limits, "_PERMITS_EVERY_SECONDS", 60.0),
        patch.object(limits, "_LIMITS_EVERY_SECONDS", 600.0),
        altered(EngineStore, "bury_nodes", AGES),
        altered(EngineStore, "read_nodes", AGES),
        patch.object(Audit, "seal", _no_seals),
        patch.object(Watch, "look", _nobody_looks),
        patch.object(Turns, "run", _at_once),
        patch.object(Threads, "run", _at_once),
    ):
        yield


async def _at_once(
    _: object, tenant: str, what: str, work: Callable[[], Any], *, most: int | None = None
) -> Any:
    """Virtual time stands still while something is computed. Threads, and turns of the loop that are cut by processor
    time, would make two runs of a seed differ."""
    return work()


async def _nobody_looks(_: Watch, *, seconds: float = 0.0) -> None:
    """What is simulated is full of what operators would be told of."""


async def _no_seals(_: Audit) -> int:
    """Nothing that is simulated reads a seal."""
    return 0


class SimulatedClock:
    """The database decides, at the other end of the wire; waiting is virtual. Every process counts from elsewhere."""

    def __init__(self, loop: VirtualLoop, offset: float) -> None:
        self._loop = loop
        self._offset = offset

    def sql_now(self) -> datetime | None:
        return None

    def lease_now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return self._loop.time() + self._offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedChance(Chance):
    """Seeded, and its ids are as old as the simulation says."""

    def __init__(self, seed: int, wire: Wire) -> None:
        super().__init__(seed)
        self._wire = wire

    def milliseconds(self) -> int:
        return int(self._wire.now().timestamp() * 1000)


class Bus:
    """Carries hints between processes, late or never."""

    def __init__(self, wire: Wire, seed: int) -> None:
        self._wire = wire
        self._chance = random.Random(f"{seed}/bus")
        self._ears: dict[Process, None] = {}
        self.lost_share = 0.15
        self.lost_ats: list[datetime] = []

    def join(self, process: Process) -> None:
        self._ears[process] = None

    def post(self, sender: Process, text: str) -> None:
        for process in list(self._ears):
            if process.life.is_dead:
                del self._ears[process]
            elif process is not sender:
                share, delay = self._chance.random(), self._chance.randint(500, 60_000) / 1_000_000
                if share < self.lost_share:
                    self.lost_ats.append(self._wire.now())
                else:
                    self._wire.loop.call_later(delay, process.hear, text, context=process.context)


class _SimulatedWakeups(Wakeups):
    """Sends over the bus instead of the database."""

    def __init__(self, process: Process, bus: Bus, database: SimulatedDatabase) -> None:
        super().__init__(database)
        self._process = process
        self._bus = bus

    async def _send(self) -> None:
        while self._waiting or self._is_changed:
            if self._is_changed:
                self._is_changed, text = False, "changed"
            else:
                text = encode(self._waiting)
                self._waiting.clear()
            self._bus.post(self._process, text)

    async def listen(self) -> None:
        pass


class Process:
    """One life of a process. A name may live again, as another process."""

    def __init__(
        self, name: str, wire: Wire, bus: Bus, database: TestDatabase, apps: list[App], seed: str
    ) -> None:
        chance = random.Random(seed)
        self.name = name
        self.life = Life(name)
        self.wire = wire
        self.context: Context = copy_context()
        self.context.run(LIFE.set, self.life)
        self.bell: Timebell
        self.notify: Notify
        self.engine: Engine | None = None
        # What it serves over HTTP, once it is asked to.
        self.surface: Any = None
        self.site: Any = None
        self._walled: Timebell | None = None
        self._bus = bus
        self._urls = database
        self._apps = apps
        self._clock = SimulatedClock(wire.loop, chance.randint(0, 10**6) / 16)
        self._chance = SimulatedChance(chance.getrandbits(60), wire)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let something go on as part of this process."""
        made = self.wire.loop.create_task(work, context=self.context.copy())
        made.add_done_callback(self.wire.loop.note_end, context=self.wire.nobody)
        return made

    async def begin(self, *, with_engine: bool) -> None:
        self.bell = await self._made_bell(self._urls.url, is_walled=False)
        self.notify = Notify(self.bell)
        self._bus.join(self)
        if any(app.on_open is not None or app.on_consume is not None for app in self._apps):
            is_open: asyncio.Future[None] = self.wire.loop.create_future()
            self.run(self._keep_open(is_open))
            await is_open
        if with_engine:
            self.engine = Engine(self.bell)
            await self.engine.start()

    async def _keep_open(self, is_open: asyncio.Future[None]) -> None:
        """What the apps keep open, and take in by themselves, as long as the process lives."""
        async with opened_apps(self.bell), taking_in(self.bell) as taking:
            is_open.set_result(None)
            await taking.wait()

    async def _made_bell(self, url: str, *, is_walled: bool) -> Timebell:
        database = await SimulatedDatabase.made_for(
            self.life, url, self.wire, size=_POOL_SIZE, is_walled=is_walled
        )
        bell = Timebell(
            database,
            registry=Registry(self._apps),
            settings=stretched_settings(url, self.name),
            clock=self._clock,
            chance=self._chance,
        )
        bell.wakeups = _SimulatedWakeups(self, self._bus, database)
        return bell

    async def walled_bell(self) -> Timebell:
        """The one that requests have, which connects as the role of the API."""
        if self._walled is None:
            self._walled = await self._made_bell(self._urls.api_url, is_walled=True)
        return self._walled

    def hear(self, text: str) -> None:
        if not self.life.is_dead:
            self.bell.wakeups._heard(None, 0, "", text)
