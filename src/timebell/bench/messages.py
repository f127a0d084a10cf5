"""The ground of the benches with a broker: a database and a broker that are thrown away, and both sides by turns."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
import orjson

from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import PAYLOAD, Ground, close, throwaway
from timebell.bench.rabbit import BrokerPlace, private_rabbit
from timebell.bench.vhost import lent_vhost
from timebell.brokers import Broker, Confirmed, Message, Received
from timebell.brokers.opening import open_broker
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.errors import TimebellError
from timebell.kernel import Registry, Timebell
from timebell.loading import load_apps
from timebell.server import opened_apps, taking_in

APP: Final = "timebell.apps.scheduler"
EXCHANGE: Final = "timebell"
REQUESTS: Final = "timebell.requests"
DUE: Final = "timebell.due"
NAMES: Final = (REQUESTS, "timebell.cancels", DUE, "timebell.dead")
EXCHANGES: Final = (EXCHANGE, "timebell.dead")
# As the app takes them.
PREFETCH: Final = 1_500
BATCH: Final = 400
BODY_BYTES_MAX: Final = 131_072

WARM_UP_MESSAGES: Final = 2_000
DEADLINE_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.002
_LOOKS_MAX: Final = 1_000_000
_CHUNK: Final = 2_000
_LEFT_SECONDS: Final = 0.2
_QUEUED: Final = "jobs_queued"
_SOMEWHERE: Final = "amqp://127.0.0.1/"

Side = Callable[[int, str], Awaitable[Cost]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageGround:
    """A migrated database of its own, and a broker on which nothing is declared but by this bench."""

    ground: Ground
    broker: BrokerPlace

    def meter(self) -> Meter:
        return Meter(self.ground.server_pid, broker_pid=self.broker.pid)

    @asynccontextmanager
    async def product(
        self, concurrency: int, around: Callable[[Broker], Broker] = lambda broker: broker
    ) -> AsyncIterator[Timebell]:
        """Timebell with the app, connected, with nothing running yet. `around` may stand between app and broker."""
        settings = Settings(concurrency=concurrency, node_name="bench", broker_url=self.broker.url)
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(self.client())
            bell = Timebell(
                await Database.open(self.ground.url, size=settings.pool_size),
                registry=Registry(load_apps([APP], around(broker))),
                settings=settings,
            )
            stack.push_async_callback(close, bell)
            await bell.declare()
            await stack.enter_async_context(opened_apps(bell))
            yield bell

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Broker]:
        """The same client on a connection of its own, not opened yet."""
        broker = open_broker(self.broker.url)
        try:
            yield broker
        finally:
            await broker.close()

    async def tidy(self) -> None:
        """So that the database does it not by itself while one of the two sides is measured."""
        await self.execute("VACUUM (ANALYZE)")

    async def execute(self, statement: str, *arguments: object) -> None:
        admin = await asyncpg.connect(self.ground.admin_url)
        try:
            await admin.execute(statement, *arguments)
        finally:
            await admin.close()

    async def count(self, statement: str, *arguments: object) -> int:
        admin = await asyncpg.connect(self.ground.admin_url)
        try:
            return int(await admin.fetchval(statement, *arguments))
        finally:
            await admin.close()


@asynccontextmanager
async def message_ground(
    data: Path | None, broker_url: str | None, broker_pid: int | None
) -> AsyncIterator[MessageGround]:
    """The broker first: where there is none, or nothing that speaks to one, nothing else has to be made."""
    open_broker(broker_url or _SOMEWHERE)
    async with AsyncExitStack() as stack:
        if broker_url is None:
            place = await stack.enter_async_context(private_rabbit())
        else:
            place = BrokerPlace(url=broker_url, pid=broker_pid)
        await stack.enter_async_context(lent_vhost(place.url, queues=NAMES, exchanges=EXCHANGES))
        ground = await stack.enter_async_context(throwaway(data, load_apps([APP])))
        yield MessageGround(ground=ground, broker=place)


def requests(prefix: str, dues: Sequence[datetime]) -> list[Message]:
    """What another service would send: one for each instant, known by its number."""
    return [
        Message(
            exchange=EXCHANGE,
            routing_key="schedule.request",
            body=orjson.dumps(
                {
                    "type": "ScheduleRequest",
                    "id": f"{prefix}-{number}",
                    "at": due.astimezone(UTC).isoformat(),
                    "payload": PAYLOAD,
                }
            ),
        )
        for number, due in enumerate(dues)
    ]


async def publish_all(broker: Broker, messages: Sequence[Message], outstanding: int, lanes: int = 4) -> None:
    """A tight loop: so many are on their way at once, in several calls, so that the broker always has some to do."""
    batch = max(1, outstanding // lanes)
    begins = iter(range(0, len(messages), batch))

    async def lane() -> None:
        for begin in begins:
            answers = await broker.publish(messages[begin : begin + batch])
            if wrong := [answer for answer in answers if not isinstance(answer, Confirmed)]:
                raise TimebellError(f"bench: the broker took {len(wrong)} messages not: {wrong[0]}")

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def take_all(broker: Broker, queue: str, count: int) -> list[Received]:
    """Empty a queue that has so many, and see that there are no more."""
    received: list[Received] = []
    async with broker.intake(queue, prefetch=PREFETCH, body_bytes_max=BODY_BYTES_MAX) as intake:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(received) < count:
                batch = await intake.take(_CHUNK)
                received += batch
                await intake.acknowledge(batch)
        try:
            async with asyncio.timeout(_LEFT_SECONDS):
                received += await intake.take(_CHUNK)
        except TimeoutError:
            pass
    if len(received) != count:
        raise TimebellError(f"bench: the queue {queue} had {len(received)} messages or more, not {count}")
    return received


async def take_in(bell: Timebell, count: int) -> None:
    """Have the app take in so many requests that wait at the broker, or come meanwhile."""
    queued = bell.tallies.counted[_QUEUED]
    wanted = queued[()] + count
    async with taking_in(bell) as taking:
        ended = asyncio.create_task(taking.wait())

        def is_over() -> bool:
            if ended.done():
                ended.result()
            return queued[()] >= wanted

        try:
            await until(is_over)
        finally:
            ended.cancel()


async def until(is_over: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Look often: what is waited for tells nobody."""
    try:
        async with asyncio.timeout(seconds):
            for _ in range(_LOOKS_MAX):
                if is_over():
                    break
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise TimebellError(f"bench: it was not done in {seconds:g} s; give it less to do") from error


def spread(now: datetime, count: int) -> list[datetime]:
    """Instants of the coming weeks, none of them due soon, in no order."""
    weeks = timedelta(days=60)
    return [now + timedelta(days=1) + weeks * (number * 7_919 % count / count) for number in range(count)]


async def by_turns(ours: Side, raw: Side, messages: int, rounds: int) -> dict[str, Any]:
    """Rounds of both, every other one backwards, after a warm-up; medians of what they cost for one message."""
    costs: dict[str, list[Cost]] = {"ours": [], "raw": []}
    sides = {"raw": raw, "ours": ours}
    for number in range(rounds):
        for name in sides if number % 2 == 0 else reversed(sides):
            costs[name].append(await sides[name](messages, f"round-{number}-{name}"))
    quotients = [
        theirs.seconds / own.seconds for own, theirs in zip(costs["ours"], costs["raw"], strict=True)
    ]
    return {
        "timebell": figures(costs["ours"], messages),
        "raw": figures(costs["raw"], messages),
        "ratio": round(statistics.median(quotients), 3),
    }


def figures(costs: Sequence[Cost], messages: int) -> dict[str, Any]:
    """What one message costs: the median of the rounds, and the rate of each."""

    def each(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return round(statistics.median(known) / messages * 1e6, 1) if known else None

    rates = [messages / cost.seconds for cost in costs]
    return {
        "per_s": round(statistics.median(rates)),
        "client_us": each([cost.client_seconds for cost in costs]),
        "server_us": each([cost.server_seconds for cost in costs]),
        "broker_us": each([cost.broker_seconds for cost in costs]),
        "rounds": [round(rate) for rate in rates],
    }
