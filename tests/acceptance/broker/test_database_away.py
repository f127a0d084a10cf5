"""The database goes away while messages come in: none is acknowledged, nothing spins, and all is kept in the end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.broker.ground import Ground, eventually, ground_on
from tests.acceptance.broker.measures import processor_seconds
from tests.acceptance.broker.talking import REQUESTS, Caller, calling, request
from tests.acceptance.faults.proxy import Proxy
from tests.acceptance.processes import Process
from timebell.testing.database import TestDatabase

LOOK_SECONDS = 4.0


class Intakes:
    """Intakes whose way to the database leads through a proxy, and what they wrote."""

    def __init__(self, ground: Ground, port: int) -> None:
        self._ground = ground
        there = urlsplit(ground.database.url)
        login = there.netloc.rpartition("@")[0]
        self._through = there._replace(netloc=f"{login}@127.0.0.1:{port}").geturl()

    async def start(self, name: str) -> Process:
        intake = self._ground.run(name, "consume", has_port=True, DATABASE_URL=self._through)
        await self._ground.ready(name)
        return intake

    async def wrote(self, count: int) -> None:
        await self._ground.taken(count)
        assert await self._ground.count("scheduler.requests") == count


async def send(caller: Caller, name: str, count: int) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await caller.send(*(request(f"{name}-{number}", at=at) for number in range(count)))


@pytest.mark.req("S-1.3")
async def test_what_comes_in_waits_for_the_database(
    place: Path, database: TestDatabase, broker_url: str
) -> None:
    there = urlsplit(database.url)
    assert there.hostname is not None
    assert there.port is not None
    with ground_on(database, broker_url, place) as ground:
        async with Proxy(there.hostname, there.port) as proxy, calling(broker_url) as caller:
            await stop_and_go(Intakes(ground, proxy.port), proxy, caller)


async def stop_and_go(intakes: Intakes, proxy: Proxy, caller: Caller) -> None:
    intake = await intakes.start("ivy")
    await send(caller, "before", 50)
    await intakes.wrote(50)

    proxy.is_refusing = True
    proxy.abort()
    await send(caller, "meanwhile", 300)
    spent = processor_seconds(intake.pid)
    await asyncio.sleep(LOOK_SECONDS)
    spent = processor_seconds(intake.pid) - spent
    print(f"{spent:.2f} s of a processor in {LOOK_SECONDS:g} s without a database")
    assert intake.is_alive, intake.words
    assert spent < LOOK_SECONDS / 4
    assert intake.status("/healthz") == 200
    assert intake.status("/readyz") == 503

    proxy.heal()
    await intakes.wrote(350)
    assert await caller.depth(REQUESTS) == 0

    # Whoever is killed before the commit has acknowledged nothing.
    proxy.is_refusing = True
    proxy.abort()
    await send(caller, "again", 200)

    async def is_taken() -> bool:
        return await caller.depth(REQUESTS) == 0

    await eventually(is_taken, 20, "the intake to take what waits")
    intake.end()

    async def is_back() -> bool:
        return await caller.depth(REQUESTS) == 200

    await eventually(is_back, 20, "all that was taken and not acknowledged")
    proxy.heal()
    second = await intakes.start("joe")
    await intakes.wrote(550)
    assert await caller.depth(REQUESTS) == 0
    assert second.stop() == 0, second.words
