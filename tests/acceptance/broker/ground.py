"""Producers and intakes on one database and one broker, what is done to them, and how everything stands in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg

from tests.acceptance.broker.checking import Name, Outage, Part, Standing
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import Process, clean_environment, free_port
from timebell.testing.database import TestDatabase

SCHEDULER: Final = "timebell.apps.scheduler"
_COMMANDS: Final[dict[Part, str]] = {"producer": "work", "intake": "consume"}
_ASK_SECONDS: Final = 0.2
_STANDINGS: Final = """
SELECT r.tenant, r.id, coalesce(s.status, 'cancelled') AS status, r.created_at, coalesce(r.cancelled_at, (
    SELECT max(l.logged_at) FROM timebell.job_log l WHERE l.tenant = r.tenant AND l.id = r.job_id), r.updated_at
    ) AS changed_at
FROM scheduler.requests r LEFT JOIN scheduler.standings s USING (tenant, id)
"""
_LEFT: Final = """
SELECT count(*), min(payload ->> 'id') AS one_of_them, started_by, crash_count, attempt, min(run_at) AS run_at
FROM timebell.jobs WHERE kind = 'scheduler.fire' GROUP BY started_by, crash_count, attempt ORDER BY run_at LIMIT 20
"""


async def eventually(is_so: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Ask now and then, where asking takes a connection."""
    deadline = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        await asyncio.sleep(_ASK_SECONDS)


def settings_of(
    database: TestDatabase, broker_url: str, *, lease_seconds: float = 4.0, **variables: str
) -> dict[str, str]:
    """The variables of a process, as an operator sets them."""
    return {
        "DATABASE_URL": database.url,
        "TIMEBELL_BROKER_URL": broker_url,
        "TIMEBELL_APPS": SCHEDULER,
        "TIMEBELL_LEASE_SECONDS": f"{lease_seconds:g}",
        "TIMEBELL_LEASE_MARGIN_SECONDS": f"{lease_seconds / 4:g}",
        **variables,
    }


class Ground:
    """Everything that it does is printed, with the seed, and so stands in the report of a test that fails."""

    def __init__(
        self,
        database: TestDatabase,
        broker_url: str,
        place: Path,
        *,
        seed: int = 0,
        **variables: Any,
    ) -> None:
        self.chance = random.Random(seed)
        self.database = database
        self.broker_url = broker_url
        self.children: dict[str, Process] = {}
        self.outages: list[Outage] = []
        self._parts: dict[str, Part] = {}
        self._started: list[Process] = []
        self._place = place
        self.variables = settings_of(database, broker_url, **variables)
        self._began = time.monotonic()
        self.note(f"seed {seed}")

    def note(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:8.3f}  {what}")

    def launch(self, part: Part, *names: str) -> None:
        """Start processes, or start them again; nobody waits for them."""
        for name in names:
            self._parts[name] = part
            self.run(name, _COMMANDS[part])

    def run(self, name: str, *command: object, has_port: bool = False, **variables: str) -> Process:
        """One more process of this name, which answers how it is where it has a port; nobody waits for it."""
        port = free_port() if has_port else None
        child = Process(
            self._place / f"process{len(self._started)}-{name}",
            *(*command, "--port", port) if has_port else command,
            environment=clean_environment(**{**self.variables, "TIMEBELL_NODE_NAME": name, **variables}),
            port=port,
        )
        self._started.append(child)
        self.children[name] = child
        self.note(f"start {name}, process {child.pid}")
        return child

    async def ready(self, *names: str) -> None:
        """Until these are, or all of them."""
        for name in names or tuple(self.children):
            await asyncio.to_thread(self.children[name].wait_ready)

    def kill(self, name: str) -> None:
        """Without a word, and start its successor."""
        began = datetime.now(UTC)
        child = self.children[name]
        assert child.is_alive, f"{name} has ended by itself: {child.words[-3000:]}"
        child.end()
        part = self._parts[name]
        self.outages.append(Outage(part=part, name=name, began=began, ended=datetime.now(UTC)))
        self.note(f"kill {name}")
        self.launch(part, name)

    @contextmanager
    def broker_away(self) -> Iterator[None]:
        """Write down that the broker is away for as long as the block lasts."""
        began = datetime.now(UTC)
        self.note("the broker goes away")
        yield
        self.outages.append(Outage(part="broker", name="broker", began=began, ended=datetime.now(UTC)))
        self.note("the broker is back")

    async def ask(self, query: str, *arguments: object) -> Sequence[Any]:
        async with asyncio.timeout(60):
            connection = await asyncpg.connect(self.database.admin_url, timeout=10, command_timeout=60)
            try:
                answer: Sequence[Any] = await connection.fetch(query, *arguments)
                return answer
            finally:
                await connection.close(timeout=10)

    @asynccontextmanager
    async def locked(self, table: str) -> AsyncIterator[None]:
        """Nobody writes to a table while the block lasts; whoever reads is not held up."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10, command_timeout=60)
        try:
            async with connection.transaction():
                await connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
                yield
        finally:
            await connection.close(timeout=10)

    async def count(self, query: str, *arguments: object) -> int:
        [row] = await self.ask(f"SELECT count(*) AS count FROM {query}", *arguments)
        return int(row["count"])

    async def standings(self) -> dict[Name, Standing]:
        return {
            (row["tenant"], row["id"]): Standing(
                status=row["status"], changed_at=row["changed_at"], created_at=row["created_at"]
            )
            for row in await self.ask(_STANDINGS)
        }

    async def taken(self, count: int, seconds: float = 60.0) -> None:
        """Until so many requests have their row."""

        async def is_so() -> bool:
            return await self.count("scheduler.requests") >= count

        await eventually(is_so, seconds, f"{count} rows")

    async def settled(self, seconds: float = 120.0) -> None:
        """Until nothing is owed any more."""

        async def is_so() -> bool:
            if await self.count("timebell.jobs WHERE kind = 'scheduler.fire'"):
                return False
            return not await self.count("scheduler.standings WHERE status = 'pending'")

        try:
            await eventually(is_so, seconds, "the last message")
        except AssertionError:
            for row in await self.ask(_LEFT):
                self.note(f"left over: {dict(row)}")
            for row in await self.ask("SELECT * FROM timebell.dead_jobs LIMIT 5"):
                self.note(f"dead: {dict(row)}")
            for name, child in self.children.items():
                self.note(f"{name} said: {child.words[-3000:]}")
            raise

    def end(self) -> None:
        for child in self._started:
            child.end()


@contextmanager
def ground_on(
    database: TestDatabase, broker_url: str, place: Path, *, seed: int = 0, **variables: Any
) -> Iterator[Ground]:
    """All that is started on it ends with the block."""
    ground = Ground(database, broker_url, place, seed=seed, **variables)
    try:
        yield ground
    finally:
        ground.end()


async def heard(said: Collection[object], count: int, seconds: float = 30.0) -> None:
    """Until so many messages came."""
    await until(lambda: len(said) >= count, seconds, f"{count} messages")
