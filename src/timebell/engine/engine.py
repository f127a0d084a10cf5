"""The engine of one process: a node, its worker and the loops that keep them going."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import asyncpg

from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import AsyncpgSession, Row
from timebell.engine.loop import Loop
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.node.vitals import ages_of, vitals_of
from timebell.engine.planner.planner import Planner
from timebell.engine.pruner import Pruner
from timebell.engine.store import EngineStore
from timebell.engine.watch.watching import Watch
from timebell.engine.worker.reader import Place
from timebell.engine.worker.worker import Only, Worker
from timebell.errors import InvalidInput
from timebell.kernel.bell import Timebell
from timebell.kernel.events import Audit
from timebell.logs import Logger
from timebell.version import __version__

log = Logger("timebell.engine")

_LISTEN_EVERY_SECONDS = 5.0
_LOOPS_END_SECONDS = 1.0
_SETTLE_SECONDS = 1.0
_SETTLE_PAUSE_SECONDS = 0.005
_PASSES_MAX = 100_000
_NAMED = "timebell "
# What a node does to stay alive and informed. The others make things happen.
_ATTENDING = frozenset({"node", "sweep", "wakeups"})


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The next instant at which something is due: at which slots and lanes of the table, and whether to be planned."""

    instant: datetime
    places: Sequence[Place]
    is_planned: bool


class Engine:
    """Pays what is owed. After `start` it goes on until `stop`. Whoever moves the clock by hand calls `run_due`
    instead, and `attend` first where that may last longer than a lease."""

    def __init__(self, bell: Timebell, *, is_alone: bool = False) -> None:
        settings = bell.settings
        self.bell = bell
        self.store = EngineStore(bell.clock)
        self.timekeeper = Timekeeper(bell.clock)
        self.node = Node(
            self.store,
            bell.clock,
            name=settings.node_name or _made_name(bell),
            version=__version__,
            lease_seconds=settings.lease_seconds,
            margin_seconds=settings.lease_margin_seconds,
            is_alone=is_alone,
            kinds=bell.registry.handlers,
        )
        # What an app enqueues before the first beat will find this node alive.
        bell.kinds_alive.note(frozenset(bell.registry.handlers))
        self.worker = Worker(bell, self.node, self.store, self.timekeeper)
        self.planner = Planner(bell)
        self.pruner = Pruner(bell, self.store, Audit(bell.database, bell.clock))
        self.watch = Watch(bell)
        self._lease_connection: asyncpg.Connection | None = None
        self._nodes_changed = asyncio.Event()
        bell.wakeups.watch(self._nodes_changed.set)
        loop = partial(Loop, chance=bell.chance, outages=self.worker.background.outages)
        grid_seconds = settings.tuning.grid_ms / 1000
        self._loops = [
            loop("node", self._tick_node, woken=self._nodes_changed),
            loop("sweep", self._tick_sweep),
            loop("worker", self.worker.tick, woken=self.worker.woken, grid_seconds=grid_seconds),
            loop("planner", self.planner.tick),
            loop("pruner", self.pruner.tick),
            loop("watch", self.watch.tick),
            loop("wakeups", self._tick_wakeups),
        ]
        self._running: list[asyncio.Task[None]] = []
        self._is_interrupted = False
        self._beaten_at = float("-inf")

    async def start(self) -> None:
        """Declare what the apps bring, take a share of the slots, and let the loops go."""
        await self.begin()
        self._let_go(self._loops)

    async def attend(self) -> None:
        """Declare what the apps bring, take slots and keep them, and run nothing that nobody asks for."""
        await self.begin()
        self._let_go([loop for loop in self._loops if loop.name in _ATTENDING])

    def _let_go(self, loops: Iterable[Loop]) -> None:
        self._running = [asyncio.create_task(loop.run(), name=f"{_NAMED}{loop.name}") for loop in loops]

    @property
    def loops(self) -> Sequence[Loop]:
        return self._loops

    @property
    def is_attending(self) -> bool:
        return bool(self._running)

    async def begin(self) -> None:
        await self.bell.declare()
        await self.beat()
        await self.worker.look_around()

    async def stop(self) -> None:
        """Begin nothing more, wait for what runs, give back what is not done in time, and leave in order."""
        self.worker.stop_starting()
        self.bell.wakeups.unwatch(self._nodes_changed.set)
        await self._settle_within(self.bell.settings.stop_seconds, is_patient=True)
        if self.worker.attempts.running:
            self.worker.attempts.interrupt()
        await self._settle_within(_SETTLE_SECONDS)
        await self._end_loops()
        await self._leave()
        self.worker.close()

    async def _settle_within(self, seconds: float, *, is_patient: bool = False) -> None:
        """Patience ends where somebody interrupts, also before it began."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self.worker.is_idle() and asyncio.get_running_loop().time() < deadline:
            if is_patient and self._is_interrupted:
                break
            await self._pass(0.05)
            # Where somebody's open transaction holds a row, nothing goes on that could be waited for.
            await asyncio.sleep(_SETTLE_PAUSE_SECONDS)

    async def _end_loops(self) -> None:
        """A loop that hangs on the database is cut off; what ended one before its time is for `wait` to tell."""
        for loop in self._loops:
            loop.stop()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_LOOPS_END_SECONDS)
            for running in late:
                running.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        self._running = []

    async def wait(self) -> None:
        """As long as the loops go on. None ends by itself but by a bug, and that is raised here."""
        if self._running:
            done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()

    def interrupt(self) -> None:
        """Begin nothing more and give back at once what still runs, for whoever cannot wait until `stop` would; that
        may be yet to come, and would find begun again what was given back before it."""
        self._is_interrupted = True
        self.worker.stop_starting()
        self.worker.attempts.interrupt()

    def complaints(self) -> list[str]:
        """What keeps this engine from its work; nothing when all is well. Wake-ups are hints and do not count."""
        unwell = [loop.name for loop in self._loops if not loop.is_well and loop.name != "wakeups"]
        complaints = [f"the {name} loop cannot reach the database" for name in unwell]
        ended = [each.get_name() for each in self._running if each.done()]
        complaints += [f"the {name.removeprefix(_NAMED)} loop has ended" for name in ended]
        still = self._still() - set(unwell)
        complaints += [f"the {name} loop stands still" for name in sorted(still)]
        if not self._running:
            complaints.append("the engine is not running")
        elif not self.node.may_start():
            complaints.append("the node has no lease")
        return complaints

    def ages(self) -> Mapping[str, float]:
        """How long ago each loop made its last pass."""
        return ages_of(self._loops, asyncio.get_running_loop().time())

    def _still(self) -> set[str]:
        """The loops that have made no pass in twice their time, though they could."""
        settings = self.bell.settings
        every = {"node": self.node.renew_every_seconds, "sweep": settings.sweep_seconds}
        every["planner"] = settings.tuning.plan_seconds
        ages, least = self.ages(), settings.lease_seconds / 2
        return {name for name, seconds in every.items() if ages.get(name, 0.0) > 2 * max(seconds, least)}

    async def _pass(self, seconds: float) -> bool:
        """One tick, and the end of the first activity that goes on then; answers whether there was one."""
        await self.worker.tick()
        going_on = self.worker.attempts.going_on | self.worker.background.going_on
        if going_on:
            await asyncio.wait(going_on, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(going_on)

    async def _leave(self) -> None:
        with suppress(*DATABASE_ERRORS):
            async with asyncio.timeout(2.0):
                async with self._lease_session() as session:
                    await self.node.leave(session)
                self.bell.wakeups.announce()
        if self._lease_connection is not None:
            self._lease_connection.terminate()
            self._lease_connection = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Engine]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()

    async def beat(self) -> None:
        """One round of the node's life."""
        self._beaten_at = self.bell.clock.monotonic()
        if not self.timekeeper.is_anchored:
            async with self.bell.database.connection() as session:
                await self.timekeeper.anchor(session)
        # A half-open connection must not outlast the lease in silence.
        async with asyncio.timeout(self.bell.settings.lease_seconds / 3), self._lease_session() as session:
            vitals = vitals_of(self.bell, self._loops, asyncio.get_running_loop().time())
            await self.node.tick(session, self.timekeeper.now(), vitals)
        self.bell.kinds_alive.note(self.node.kinds_alive())
        if self.node.has_news:
            self.bell.wakeups.announce()

    @asynccontextmanager
    async def _lease_session(self) -> AsyncIterator[AsyncpgSession]:
        """The lease has a connection of its own: handlers that hold all the others must not cost the node its life."""
        if self._lease_connection is None or self._lease_connection.is_closed():
            self._lease_connection = await self.bell.database.dedicated()
        try:
            yield self.bell.database.session(self._lease_connection)
        except (*DATABASE_ERRORS, asyncio.CancelledError):
            # A deadline arrives here as a cancellation, and a half-open connection would meet every later one too.
            self._lease_connection.terminate()
            self._lease_connection = None
            raise

    async def _tick_node(self) -> float:
        await self.beat()
        return self.node.renew_every_seconds

    async def _tick_sweep(self) -> float:
        await self.worker.look_around()
        return self.bell.settings.sweep_seconds

    async def _tick_wakeups(self) -> float:
        if not (self.bell.settings.pooled and self.bell.settings.listen_url is None):
            await self.bell.wakeups.listen()
        return _LISTEN_EVERY_SECONDS

    async def run_due(self) -> int:
        """Run everything that is due now, and what becomes due at this instant because of it. For moved clocks.

        Answers with the number of jobs that were settled.
        """
        before = self._settled_count()
        if not self._running:
            await self.beat()
        await self.planner.run_due(self.timekeeper.now())
        await self.worker.look_around()
        self.worker.sweep()
        await self._pass_until_idle()
        return self._settled_count() - before

    async def run_some(self, tenant: str, queue: str, most: int) -> int:
        """Run at most so many of a tenant's jobs in a queue that are due now, those first that wait longest, and
        nothing else. For who calls at times of their own; an engine that has been started needs nobody to call.

        Answers with the number of jobs that were settled.
        """
        if self._running:
            raise InvalidInput("this engine runs by itself; ask one that was not started", field="engine")
        before = self._settled_count()
        await self.beat()
        await self.worker.look_around()
        self.worker.sweep()
        only = self.worker.only = Only(pair=(tenant, queue), left=0)
        try:
            # What is due is read a part at a time, and only then is it known what waits longest.
            await self._pass_while_some(only)
            only.left = most
            await self._pass_while_some(only)
        finally:
            self.worker.only = None
        return self._settled_count() - before

    async def _pass_while_some(self, only: Only) -> None:
        for _ in range(_PASSES_MAX):
            left = only.left
            is_busy = await self._pass(1.0)
            is_over = not is_busy and self.worker.is_idle() and not self.worker.is_reading()
            if is_over and only.left == left:
                break

    async def run_next(self, upcoming: Upcoming) -> int:
        """The same at the next instant that is known: it looks only at what is due there.

        What was written behind that is found where somebody announced it, and by the next `run_due`.
        """
        before = self._settled_count()
        if not self._running:
            # Instants that follow each other at once in real time cost the lease nothing.
            if self.bell.clock.monotonic() >= self._beaten_at + self.node.renew_every_seconds:
                await self.beat()
            await self.worker.look_around()
        if upcoming.is_planned:
            await self.planner.run_next(upcoming.instant)
        self.worker.read_on(upcoming.places)
        await self._pass_until_idle()
        return self._settled_count() - before

    async def _pass_until_idle(self) -> None:
        for _ in range(_PASSES_MAX):
            is_busy = await self._pass(1.0)
            if self.worker.is_idle() and not self.worker.has_work() and not self._has_startable():
                break
            if not is_busy:
                # Somebody's open transaction holds a row, or the lease was lost; whoever that is must get their turn.
                await self.bell.clock.sleep(_SETTLE_PAUSE_SECONDS)

    def _has_startable(self) -> bool:
        earliest = self.worker.next_instant()
        return earliest is not None and earliest <= self.timekeeper.now()

    def _settled_count(self) -> int:
        counters = self.worker.counters
        return counters.done + counters.ended + counters.retried

    async def upcoming(self) -> Upcoming | None:
        """When something is due next, in the table or in memory, and where."""
        now = self.timekeeper.now()
        rows, planned = await asyncio.gather(self._next_due(now), self.planner.next_instant())
        stored = rows[0]["run_at"] if rows else None
        later = [at for at in (stored, self.worker.next_instant(), planned) if at is not None and at > now]
        if not later:
            return None
        instant = min(later)
        places = [(row["slot"], row["lane"]) for row in rows if row["run_at"] == instant]
        return Upcoming(instant, places, planned is not None and planned <= instant)

    async def _next_due(self, now: datetime) -> Sequence[Row]:
        async with self.bell.database.connection() as session:
            return await self.store.read_next_due(session, after=now)

    async def next_instant(self) -> datetime | None:
        """When something is due next."""
        upcoming = await self.upcoming()
        return None if upcoming is None else upcoming.instant


def _made_name(bell: Timebell) -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{bell.chance.bits(32):08x}"
