"""What the engine's tests share: several nodes on one database and one clock, and ways to hold and kill them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

import asyncpg

from timebell.clock import Chance
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.kernel import App, Registry, Timebell
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase

Moment = Literal["before", "after"]
_DEADLINE_SECONDS = 60.0
_PASSES_MAX = 10_000


class Hold:
    """One place at which a statement stops: before it is sent, or after it was carried out and unheard of."""

    def __init__(self, moment: Moment, name: str) -> None:
        self.moment = moment
        self.name = name
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    async def stop(self) -> None:
        self.reached.set()
        await self._released.wait()

    def release(self) -> None:
        self._released.set()


class Stage:
    """A gate that counts the statements and holds the next one of a name when asked to.

    A handler may call `before` and `after` too, under a name of its own, to be held around its effect.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._holds: list[Hold] = []
        self._failures: list[tuple[Moment, str, BaseException]] = []
        self._death = asyncio.Event()

    def die(self) -> None:
        """The process is gone: whoever is held hears of nothing but its broken connection, now and from here on."""
        self._death.set()

    def hold(self, moment: Moment, name: str) -> Hold:
        hold = Hold(moment, name)
        self._holds.append(hold)
        return hold

    def fail(self, moment: Moment, name: str, error: BaseException) -> None:
        """Let the next statement of this name fail; after it was carried out, only its reply is lost."""
        self._failures.append((moment, name, error))

    async def before(self, name: str) -> None:
        self.counts[name] += 1
        await self._pass("before", name)

    async def after(self, name: str) -> None:
        await self._pass("after", name)

    async def _pass(self, moment: Moment, name: str) -> None:
        if self._death.is_set():
            raise ConnectionResetError("its process was killed")
        for failure in self._failures:
            if failure[:2] == (moment, name):
                self._failures.remove(failure)
                raise failure[2]
        for hold in self._holds:
            if (hold.moment, hold.name) == (moment, name):
                self._holds.remove(hold)
                await self._stop_at(hold)
                return

    async def _stop_at(self, hold: Hold) -> None:
        held, death = asyncio.ensure_future(hold.stop()), asyncio.ensure_future(self._death.wait())
        try:
            await asyncio.wait((held, death), return_when=asyncio.FIRST_COMPLETED)
        finally:
            held.cancel()
            death.cancel()
        if self._death.is_set():
            raise ConnectionResetError("its process was killed")


class Owner:
    """The database as its owner sees it, for what the application itself must not do."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.connection.fetch(statement, *arguments)]

    async def value(self, statement: str, *arguments: object) -> Any:
        return await self.connection.fetchval(statement, *arguments)

    async def jobs(self) -> list[dict[str, Any]]:
        return await self.rows("SELECT * FROM timebell.jobs ORDER BY id")

    async def log(self, *states: str) -> list[dict[str, Any]]:
        return await self.rows(
            "SELECT * FROM timebell.job_log WHERE $1::text[] = '{}' OR state = ANY($1) "
            "ORDER BY logged_at, version",
            list(states),
        )

    async def until_someone_waits(self) -> None:
        """Return once a statement in this database waits for a lock that another holds."""
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while not await self.value(waiting):
                continue

    async def expire_lease(self, incarnation: int) -> None:
        """As if the node had been silent for longer than its lease."""
        done = await self.connection.execute(
            "UPDATE timebell.nodes SET lease_until = '-infinity' WHERE incarnation = $1", incarnation
        )
        assert done == "UPDATE 1"


async def passes_until(engine: Engine, is_so: Callable[[], bool]) -> None:
    """Let the worker go on until something is so, where it cannot come to rest by itself."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not is_so():
            await engine._pass(0.02)
            await asyncio.sleep(0)


def has_read_all(engine: Engine) -> bool:
    """Nothing more of what is due soon is to be read for now."""
    worker = engine.worker
    return not worker._reader.is_wanted() and not worker.ledger.is_being_read


class ClusterNode:
    """One node: an engine with a pool, a bell and a gate of its own."""

    def __init__(self, engine: Engine, stage: Stage) -> None:
        self.engine = engine
        self.stage = stage
        self.bell = engine.bell
        self._driving: asyncio.Task[int] | None = None
        self.is_gone = False

    @property
    def incarnation(self) -> int:
        return self.engine.node.incarnation

    @property
    def refused_count(self) -> int:
        return self.engine.worker._settler.refused_count

    async def run_due(self) -> int:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            return await self.engine.run_due()

    async def turn(self) -> None:
        """Let the worker do what it would do by itself at this instant: no beat, no forced sweep."""
        async with asyncio.timeout(_DEADLINE_SECONDS):
            for _ in range(_PASSES_MAX):
                await self.engine._pass(1.0)
                worker = self.engine.worker
                if worker.is_idle() and not worker.has_work() and not self.engine._has_startable():
                    return
        raise AssertionError("the worker never came to rest")

    async def passes_until(self, is_so: Callable[[], bool]) -> None:
        await passes_until(self.engine, is_so)

    async def run_until(self, hold: Hold) -> None:
        """Run what is due until the hold is reached; the node goes on beside the test when it is released."""
        assert not await self.survives(hold), f"never came to {hold.moment} {hold.name}"

    async def survives(self, fatal: Hold) -> bool:
        """Run what is due; False where the hold is reached first, and the node is to be killed there."""
        self._driving = asyncio.create_task(self.engine.run_due())
        reached = asyncio.create_task(fatal.reached.wait())
        await asyncio.wait(
            {self._driving, reached}, timeout=_DEADLINE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        reached.cancel()
        return not fatal.reached.is_set()

    async def go_on(self, hold: Hold) -> int:
        """Release what `run_until` held and see the run through."""
        hold.release()
        assert self._driving is not None
        driving, self._driving = self._driving, None
        async with asyncio.timeout(_DEADLINE_SECONDS):
            return await driving

    def connections(self) -> list[Any]:
        """Every connection that the node has open."""
        pool: Any = self.bell.database._pool
        opened = [*(holder._con for holder in pool._holders), self.engine._lease_connection]
        return [each for each in opened if each is not None and not each.is_closed()]

    async def kill(self, admin: Any) -> None:
        """Die at once: whatever goes on stops where it is, and the server sees every connection break."""
        self.is_gone = True
        connections = self.connections()
        pids = [each.get_server_pid() for each in connections]
        for each in connections:
            each.terminate()
        self.bell.database._pool.terminate()
        worker = self.engine.worker
        worker.attempts._queued.clear()
        going_on = worker.attempts.going_on | worker.background.going_on
        if self._driving is not None:
            going_on.add(self._driving)
        for each in going_on:
            each.cancel()
        self.stage.die()
        await asyncio.gather(*going_on, return_exceptions=True)
        self.engine.worker.close()
        # Waits until each is gone, and with it the locks of whatever it had not committed.
        await admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest($1::int[]) AS p(pid)", pids)

    async def close(self) -> None:
        if self._driving is not None:
            self._driving.cancel()
            await asyncio.gather(self._driving, return_exceptions=True)
        if not self.is_gone:
            await self.engine.stop()
            await self.bell.close()
            await self.bell.database.close()


class Cluster:
    """Nodes that share a database and a clock."""

    def __init__(self, database: TestDatabase, owner: Owner, admin: Any) -> None:
        self.url = database.url
        self.owner = owner
        self.clock = ManualClock()
        self._admin = admin
        self._nodes: list[ClusterNode] = []

    async def node(
        self,
        apps: Iterable[App],
        *,
        is_alone: bool = False,
        pooled: bool = False,
        clock: Any = None,
        **settings: Any,
    ) -> ClusterNode:
        """A node that has begun: it lives, and has taken the slots that are free for it."""
        stage = Stage()
        database = await Database.open(self.url, gate=stage, pooled=pooled)
        bell = Timebell(
            database,
            registry=Registry(apps),
            settings=Settings(database_url=self.url, pooled=pooled, **settings),
            clock=clock or self.clock,
            chance=Chance(len(self._nodes) + 1),
        )
        node = ClusterNode(Engine(bell, is_alone=is_alone), stage)
        self._nodes.append(node)
        await node.engine.begin()
        return node

    async def kill(self, node: ClusterNode) -> None:
        """The node dies and its lease runs out: the next beat of any other buries it."""
        incarnation = node.incarnation
        await self.kill_only(node)
        await self.owner.expire_lease(incarnation)

    async def kill_only(self, node: ClusterNode) -> None:
        """The node dies, and its lease has not run out yet."""
        await node.kill(self._admin)

    async def close(self) -> None:
        for node in self._nodes:
            await node.close()


async def connect(url: str) -> Any:
    return await asyncpg.connect(url, timeout=10, command_timeout=60)
