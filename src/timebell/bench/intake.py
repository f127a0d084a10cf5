"""Intake: how many requests a second one process takes in, beside what anybody would write by hand for the same.

By hand is: take as many at once from the same client, read the JSON, insert all into one table in one statement that
leaves out what is known, commit, and acknowledge them with one word. The table has what a request has, and the two
indexes without which nothing could be found in it: its name, and its instant.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import orjson

from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, peak_memory_mb
from timebell.bench.messages import (
    BATCH,
    BODY_BYTES_MAX,
    DEADLINE_SECONDS,
    PREFETCH,
    REQUESTS,
    WARM_UP_MESSAGES,
    MessageGround,
    by_turns,
    message_ground,
    publish_all,
    requests,
    spread,
    take_all,
    take_in,
)
from timebell.brokers import Broker, Received, Topology
from timebell.errors import TimebellError

_OUTSTANDING: Final = 1_000
_TABLE: Final = """
    CREATE SCHEMA bench;
    CREATE TABLE bench.requests (
        tenant         text NOT NULL,
        id             text COLLATE "C" NOT NULL,
        due_at         timestamptz,
        recurrence     text,
        timezone       text,
        start_at       timestamptz,
        misfire        text,
        payload        json,
        correlation_id text,
        status         text NOT NULL DEFAULT 'pending',
        created_at     timestamptz NOT NULL DEFAULT now(),
        updated_at     timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant, id)
    );
    CREATE INDEX ON bench.requests (due_at);
"""
_INSERT: Final = """
    INSERT INTO bench.requests (tenant, id, due_at, recurrence, timezone, start_at, misfire, payload, correlation_id)
    SELECT 'default', id, due_at, recurrence, timezone, start_at, misfire, payload::json, correlation_id
    FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[],
        $8::text[]) AS w(id, due_at, recurrence, timezone, start_at, misfire, payload, correlation_id)
    ON CONFLICT (tenant, id) DO NOTHING
"""
_OURS: Final = """
    SELECT count(*) FROM scheduler.requests r JOIN timebell.jobs j ON j.id = r.job_id WHERE r.id LIKE $1 || '-%'
"""
_RAW: Final = "SELECT count(*) FROM bench.requests WHERE id LIKE $1 || '-%'"


async def intake(
    *,
    messages: int,
    rounds: int,
    data: Path | None = None,
    broker_url: str | None = None,
    broker_pid: int | None = None,
) -> dict[str, Any]:
    async with message_ground(data, broker_url, broker_pid) as ground:
        await ground.execute(_TABLE)
        sides = _Sides(ground)
        await sides.ours(min(messages, WARM_UP_MESSAGES), "warm-up")
        await sides.raw(min(messages, WARM_UP_MESSAGES), "warm-up")
        compared = await by_turns(sides.ours, sides.raw, messages, rounds)
    result = {
        "bench": "intake",
        "messages": messages,
        "batch": BATCH,
        **compared,
        "peak_memory_mb": peak_memory_mb(),
    }
    return {**result, "bars": beside_bars(result)}


class _Sides:
    """What is compared. All requests of a side wait at the broker before it begins."""

    def __init__(self, ground: MessageGround) -> None:
        self._ground = ground

    async def ours(self, count: int, prefix: str) -> Cost:
        ground = self._ground
        async with ground.product(_OUTSTANDING) as bell:
            await self._ask(prefix, count)
            meter = ground.meter()
            await take_in(bell, count)
            cost = meter.read()
        await self._check(_OURS, prefix, count)
        return cost

    async def raw(self, count: int, prefix: str) -> Cost:
        ground = self._ground
        connection = await asyncpg.connect(ground.ground.admin_url)
        try:
            async with ground.client() as broker:
                await broker.open(Topology())
                await self._ask(prefix, count)
                meter = ground.meter()
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await _by_hand(broker, connection, count)
                cost = meter.read()
        finally:
            await connection.close()
        await self._check(_RAW, prefix, count)
        return cost

    async def _ask(self, prefix: str, count: int) -> None:
        ground = self._ground
        connection = await asyncpg.connect(ground.ground.admin_url)
        try:
            now: datetime = await connection.fetchval("SELECT now()")
        finally:
            await connection.close()
        async with ground.client() as broker:
            await broker.open(Topology())
            await publish_all(broker, requests(prefix, spread(now, count)), _OUTSTANDING)
        await ground.tidy()

    async def _check(self, statement: str, prefix: str, count: int) -> None:
        """All are there, and none is left at the broker."""
        if (taken := await self._ground.count(statement, prefix)) != count:
            raise TimebellError(f"bench: {taken} of {count} requests were taken in")
        async with self._ground.client() as broker:
            await broker.open(Topology())
            await take_all(broker, REQUESTS, 0)


async def _by_hand(broker: Broker, connection: asyncpg.Connection[asyncpg.Record], count: int) -> None:
    left = count
    async with broker.intake(REQUESTS, prefetch=PREFETCH, body_bytes_max=BODY_BYTES_MAX) as taking:
        while left > 0:
            batch = await taking.take(BATCH)
            rows = zip(*(_row(one) for one in batch), strict=True)
            async with connection.transaction():
                await connection.execute(_INSERT, *map(list, rows))
            await taking.acknowledge(batch)
            left -= len(batch)


def _row(one: Received) -> tuple[Any, ...]:
    fields = orjson.loads(one.body)
    start = fields.get("dtstart")
    return (
        fields["id"],
        datetime.fromisoformat(fields["at"]),
        fields.get("rrule"),
        fields.get("tz"),
        None if start is None else datetime.fromisoformat(start),
        fields.get("misfire"),
        orjson.dumps(fields.get("payload")).decode(),
        one.correlation_id,
    )
