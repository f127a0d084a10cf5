"""Publish: how many messages a second one process fires, confirmed by the broker, beside the client in a tight loop.

The raw loop hands over what the app itself has published before: the same messages to the same exchange and queue, as
many on their way at once. It reads no database and makes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import asyncpg
import orjson

from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, memory_mb, peak_memory_mb
from timebell.bench.late import percentile
from timebell.bench.messages import (
    DEADLINE_SECONDS,
    DUE,
    WARM_UP_MESSAGES,
    MessageGround,
    by_turns,
    message_ground,
    publish_all,
    requests,
    take_all,
    take_in,
    until,
)
from timebell.brokers import Broker, Confirmed, Heard, Intake, Message, Published, Topology
from timebell.engine import Engine
from timebell.errors import TimebellError
from timebell.kernel import Timebell
from timebell.server import taking_in

OUTSTANDING: Final = 8_000
_ASKED_AT_ONCE: Final = 1_000
_SOON: Final = timedelta(milliseconds=500)
_WITHIN: Final = timedelta(seconds=2)
_ASK_EVERY_SECONDS: Final = 0.05
_ROWS_A_STATEMENT: Final = 100_000
_LATE_SECONDS: Final = 30.0
# As the app writes a request that is due once: what was asked for, and its job.
_FUTURE: Final = """
    WITH made AS MATERIALIZED (
        SELECT timebell.new_id() AS job_id, timebell.new_id() AS number, 'future-' || ($2::bigint + n) AS id,
            now() + interval '1 day' + random() * interval '60 days' AS at
        FROM generate_series(1, $1) AS n
    ), owed AS (
        INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
        SELECT job_id, 'default', 'scheduler', 'scheduler.fire', at, at, jsonb_build_object('id', id) FROM made
    )
    INSERT INTO scheduler.requests (tenant, id, number, due_at, payload, job_id, created_at, updated_at)
    SELECT 'default', id, number, at, $3::text::json, job_id, now(), now() FROM made
"""
_LATER: Final = '{"to": "recipient", "text": "later"}'


async def publish(
    *,
    messages: int,
    rounds: int,
    concurrency: int,
    rate: int,
    seconds: int,
    future: int,
    data: Path | None = None,
    broker_url: str | None = None,
    broker_pid: int | None = None,
) -> dict[str, Any]:
    """Both sides by turns, then how late a confirmed message is, at one rate, beside what is due another day."""
    async with message_ground(data, broker_url, broker_pid) as ground:
        sides = _Sides(ground, concurrency)
        await sides.ours(min(messages, WARM_UP_MESSAGES), "warm-up")
        await sides.raw(min(messages, WARM_UP_MESSAGES), "warm-up")
        compared = await by_turns(sides.ours, sides.raw, messages, rounds)
        await _add_future(ground, future)
        late = await _late(ground, rate=rate, seconds=seconds, concurrency=concurrency)
    result = {
        "bench": "publish",
        "messages": messages,
        "outstanding": concurrency,
        **compared,
        "late": {"rate": rate, "seconds": seconds, "future": future, **late},
        "peak_memory_mb": peak_memory_mb(),
    }
    return {**result, "bars": beside_bars(result)}


class _Sides:
    """What is compared. The app's own messages are kept from its first run, and handed over by the raw loop."""

    def __init__(self, ground: MessageGround, outstanding: int) -> None:
        self._ground = ground
        self._outstanding = outstanding
        self._kept: list[Message] = []

    async def ours(self, count: int, prefix: str) -> Cost:
        """From before the engine is started until the end of the last job is written."""
        ground = self._ground
        kept = _Kept()
        around = (lambda broker: broker) if self._kept else kept.around
        async with ground.product(self._outstanding, around) as bell:
            await _ask(ground, bell, prefix, count)
            await ground.tidy()
            engine = Engine(bell)
            meter = ground.meter()
            await engine.start()
            try:
                await until(lambda: engine.worker.counters.done >= count)
                cost = meter.read()
            finally:
                await engine.stop()
        self._kept = self._kept or [message for _, message in kept.confirmed]
        async with ground.client() as broker:
            await broker.open(Topology())
            fired = {orjson.loads(one.body)["id"] for one in await take_all(broker, DUE, count)}
        if len(fired) != count:
            raise TimebellError(f"bench: {count} messages were fired for {len(fired)} requests")
        return cost

    async def raw(self, count: int, _prefix: str) -> Cost:
        ground = self._ground
        messages = list(islice(cycle(self._kept), count))
        async with ground.client() as broker:
            await broker.open(Topology())
            # The way to an exchange is made with the first message to it.
            await publish_all(broker, messages[:1], 1)
            await take_all(broker, DUE, 1)
            await ground.tidy()
            meter = ground.meter()
            async with asyncio.timeout(DEADLINE_SECONDS):
                await publish_all(broker, messages, self._outstanding)
            cost = meter.read()
            await take_all(broker, DUE, count)
        return cost


@dataclass(slots=True)
class _Kept:
    """Stands between the app and its broker, and keeps what was confirmed, with the instant of a clock."""

    confirmed: list[tuple[datetime | None, Message]] = field(default_factory=list)
    now: Callable[[], datetime] | None = None
    broker: Broker | None = None

    def around(self, broker: Broker) -> Broker:
        self.broker = broker
        return self

    @property
    def is_there(self) -> bool:
        return self._broker.is_there

    def watch(self, changed: Callable[[bool], None]) -> None:
        self._broker.watch(changed)

    async def open(self, topology: Topology) -> None:
        await self._broker.open(topology)

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        answers = await self._broker.publish(messages, heard)
        now = None if self.now is None else self.now()
        self.confirmed += [
            (now, message)
            for message, answer in zip(messages, answers, strict=True)
            if isinstance(answer, Confirmed)
        ]
        return answers

    def intake(
        self, queue: str, *, prefetch: int, body_bytes_max: int
    ) -> AbstractAsyncContextManager[Intake]:
        return self._broker.intake(queue, prefetch=prefetch, body_bytes_max=body_bytes_max)

    async def close(self) -> None:
        await self._broker.close()

    @property
    def _broker(self) -> Broker:
        assert self.broker is not None
        return self.broker


async def _ask(ground: MessageGround, bell: Timebell, prefix: str, count: int) -> None:
    """Have so many requests taken in that are due already, with nothing yet that fires them."""
    async with bell.database.connection() as session:
        now: datetime = await session.connection.fetchval("SELECT now()")
    async with ground.client() as broker:
        await broker.open(Topology())
        await publish_all(broker, requests(prefix, [now] * count), _ASKED_AT_ONCE)
    await take_in(bell, count)


async def _add_future(ground: MessageGround, count: int) -> None:
    """Requests that are due in the coming weeks, as rows: to ask for each would take longer than all the rest."""
    connection = await asyncpg.connect(ground.ground.admin_url)
    try:
        for begin in range(0, count, _ROWS_A_STATEMENT):
            await connection.execute(_FUTURE, min(_ROWS_A_STATEMENT, count - begin), begin, _LATER)
    finally:
        await connection.close()
    await ground.tidy()


async def _late(ground: MessageGround, *, rate: int, seconds: int, concurrency: int) -> dict[str, Any]:
    """Requests come over the broker all the while, are taken in and fired by one process, and are late by as much as
    the confirm comes after the instant that was asked for, on the database's clock."""
    kept = _Kept()
    count = rate * seconds
    async with ground.product(concurrency, kept.around) as bell, ground.client() as asking:
        await asking.open(Topology())
        engine = Engine(bell)
        kept.now = engine.timekeeper.now
        await engine.start()
        try:
            async with taking_in(bell):
                await _ask_at(asking, bell, engine, rate, count)
                await until(lambda: len(kept.confirmed) >= count, _LATE_SECONDS)
        finally:
            await engine.stop()
        memory = memory_mb()
        await take_all(asking, DUE, count)
    ordered = sorted(
        (noted - datetime.fromisoformat(orjson.loads(message.body)["scheduled_for"]))
        / timedelta(milliseconds=1)
        for noted, message in kept.confirmed
        if noted is not None
    )
    return {
        "n": len(ordered),
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
        "max_ms": round(ordered[-1], 3),
        "early": sum(1 for each in ordered if each < 0),
        "memory_mb": memory,
    }


async def _ask_at(asking: Broker, bell: Timebell, engine: Engine, rate: int, count: int) -> None:
    """Evenly over the time, each due at any instant of two seconds that begin half a second later."""
    asked = 0
    began = bell.clock.monotonic()
    while asked < count:
        elapsed = bell.clock.monotonic() - began
        owed = min(count, int(rate * (elapsed + _ASK_EVERY_SECONDS))) - asked
        now = engine.timekeeper.now()
        dues = [now + _SOON + _WITHIN * bell.chance.fraction() for _ in range(owed)]
        await publish_all(asking, requests(f"late-{asked}", dues), _ASKED_AT_ONCE)
        asked += owed
        await asyncio.sleep(_ASK_EVERY_SECONDS)
