"""A scheduler on a real database, a broker in this process and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson

from timebell.apps.scheduler import with_broker
from timebell.apps.scheduler.intake import BATCH, PREFETCH, IntakeLoop
from timebell.apps.scheduler.letters import Letters
from timebell.apps.scheduler.messages import BODY_BYTES_MAX
from timebell.apps.scheduler.models import ScheduledRequest
from timebell.apps.scheduler.service import Scheduler
from timebell.apps.scheduler.topology import CANCELS, DEAD, EXCHANGE, REQUESTS, topology
from timebell.brokers import Message
from timebell.brokers.local import LocalBroker
from timebell.brokers.local_server import LocalServer
from timebell.kernel import App, Timebell
from timebell.server import opened_apps
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

NOW = datetime(2025, 7, 10, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DUE_QUEUE = "timebell.due"
KEYS = {"ScheduleRequest": "schedule.request", "ScheduleCancel": "schedule.cancel"}


def message(type: str, id: str | None = None, **fields: Any) -> Message:
    """What another service sends. Instants may be given as such."""
    said = {"type": type, "id": id, **fields}
    body = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in said.items()
        if value is not None
    }
    return Message(exchange=EXCHANGE, routing_key=KEYS[type], body=orjson.dumps(body))


async def take_in(bell: Timebell, broker: LocalBroker) -> None:
    """Take what waits in the two queues, as a process that runs the app would."""
    for queue in (REQUESTS, CANCELS):
        loop = IntakeLoop(bell, broker, queue)
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            intake = await stack.enter_async_context(
                broker.intake(queue, prefetch=PREFETCH, body_bytes_max=BODY_BYTES_MAX)
            )
            letters = Letters(bell, broker, intake)
            # Each tick takes a batch, and none is begun for nothing.
            for _ in range(100_000 // BATCH):
                if not broker.server.messages(queue):
                    break
                assert await loop.tick(intake, letters)
                assert await loop.settled()
                if not letters.is_empty:
                    await letters.tick()
            await loop.rest()
            assert broker.server.messages(queue) == []


@dataclass(slots=True, kw_only=True)
class Desk:
    """One process with everything in it, and another service that talks to it."""

    harness: Harness
    server: LocalServer
    broker: LocalBroker
    stranger: LocalBroker
    database: TestDatabase

    @property
    def clock(self) -> ManualClock:
        return self.harness.clock

    @property
    def bell(self) -> Timebell:
        return self.harness.bell

    @property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.bell)

    async def send(self, *messages: Message) -> None:
        """Hand messages over, and have them taken in."""
        await self.post(*messages)
        await take_in(self.bell, self.broker)

    async def post(self, *messages: Message) -> None:
        answers = await self.stranger.publish(messages)
        assert {type(answer).__name__ for answer in answers} == {"Confirmed"}

    async def ask(self, id: str, **fields: Any) -> None:
        await self.send(message("ScheduleRequest", id, **fields))

    async def cancel(self, *ids: str, **fields: Any) -> None:
        await self.send(*[message("ScheduleCancel", id, **fields) for id in ids])

    async def run_to(self, instant: datetime) -> None:
        """Move the clock there, stopping wherever something is due."""
        await self.harness.advance(to=instant)

    def dues(self, queue: str = DUE_QUEUE) -> list[dict[str, Any]]:
        """What was published, in order."""
        return [orjson.loads(one.body) for one in self.server.messages(queue)]

    def fired(self) -> list[tuple[str, str]]:
        return [(due["id"], due["scheduled_for"]) for due in self.dues()]

    def letters(self) -> list[Message]:
        return self.server.messages(DEAD)

    async def broker_left(self) -> None:
        """Until the process has noticed."""
        for _ in range(10):
            await asyncio.sleep(0)
        assert not self.broker.is_there

    async def get(self, id: str, tenant: str = "default") -> ScheduledRequest:
        async with self.bell.transaction(tenant=tenant) as tx:
            return await self.scheduler.get(tx, id)

    async def status(self, id: str) -> str:
        return (await self.get(id)).status

    def counted(self, name: str, *labels: str) -> int:
        return self.bell.tallies.counted[name][labels]

    async def rows(
        self, sql: str = "SELECT * FROM scheduler.requests ORDER BY id", *values: object
    ) -> Sequence[Any]:
        """Asked past the wall between tenants."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return await connection.fetch(sql, *values)
        finally:
            await connection.close(timeout=10)


@asynccontextmanager
async def desk(
    database: TestDatabase, *, now: datetime = NOW, server: LocalServer | None = None, **settings: Any
) -> AsyncIterator[Desk]:
    server = server or LocalServer()
    broker, stranger = LocalBroker(server), LocalBroker(server)
    settings = {"horizon_days": 30, **settings}
    async with (
        harness(database.url, [with_broker(broker)], clock=ManualClock(now), **settings) as bench,
        opened_apps(bench.bell),
    ):
        await stranger.open(topology(bench.bell.settings.broker_due_queue))
        yield Desk(harness=bench, server=server, broker=broker, stranger=stranger, database=database)
    await stranger.close()
    await broker.close()


async def is_there(made: Desk) -> None:
    """Until the broker can be published to again."""
    back = asyncio.Event()
    made.broker.watch(lambda is_there: back.set() if is_there else None)
    if not made.broker.is_there:
        async with asyncio.timeout(10):
            await back.wait()


def app_on(server: LocalServer) -> tuple[App, LocalBroker]:
    """The app of one more process on the same broker."""
    broker = LocalBroker(server)
    return with_broker(broker), broker
