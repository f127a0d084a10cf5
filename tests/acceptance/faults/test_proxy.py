"""The way to the database misbehaves: cut, slow, half-open, in crumbs, or without its replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.measures import longest_call, longest_wait, needless_starts
from tests.acceptance.faults.proxy import Proxy
from tests.acceptance.faults.servers import served
from tests.acceptance.faults.stage import Stage
from tests.history import load as load_history

# As an operator sets them who would rather hear soon that the database is away.
CONNECT_SECONDS = 2.0
STATEMENT_SECONDS = 3.0
# A statement that nobody answers is given up this long after it should have ended by itself, and so is the request
# to cancel it; a call is a BEGIN, a few statements and a COMMIT, of which the first that fails ends it.
CALL_SECONDS = CONNECT_SECONDS + 2 * (STATEMENT_SECONDS + 5)

Fault = Callable[[Stage, Proxy], Awaitable[None]]


async def cut(stage: Stage, proxy: Proxy) -> None:
    """Ten times, with a reset or in order, in the middle of whatever goes on."""
    for _ in range(10):
        at = datetime.now(UTC)
        stage.chance.choice([proxy.abort, proxy.drop])()
        stage.fault("cut", "database", at, at)
        await asyncio.sleep(0.2 + stage.chance.random())


async def refuse(stage: Stage, proxy: Proxy) -> None:
    """Nobody gets through for five seconds."""
    began = datetime.now(UTC)
    proxy.is_refusing = True
    proxy.abort()
    await asyncio.sleep(5)
    proxy.heal()
    stage.fault("cut", "database", began, datetime.now(UTC))


async def slow(stage: Stage, proxy: Proxy) -> None:
    """Half a second each way for ten seconds."""
    began = datetime.now(UTC)
    proxy.delay = 0.5
    await asyncio.sleep(10)
    proxy.heal()
    stage.fault("slow", "database", began, datetime.now(UTC))


async def crumble(stage: Stage, proxy: Proxy) -> None:
    """One byte a millisecond for eight seconds."""
    began = datetime.now(UTC)
    proxy.slice_bytes, proxy.slice_delay = 1, 0.001
    await asyncio.sleep(8)
    proxy.heal()
    stage.fault("slow", "database", began, datetime.now(UTC))


async def half_open(stage: Stage, proxy: Proxy) -> None:
    """Every open connection says nothing any more, and new ones work."""
    at = datetime.now(UTC)
    assert proxy.half_open() > 3
    stage.fault("cut", "database", at, at)
    await asyncio.sleep(5)


async def freeze(stage: Stage, proxy: Proxy) -> None:
    """Nothing moves for longer than the lease, new connections included, and then everything does."""
    began = datetime.now(UTC)
    proxy.pause()
    await asyncio.sleep(stage.lease_seconds + 2)
    proxy.heal()
    stage.fault("cut", "database", began, datetime.now(UTC))


async def lose_replies(stage: Stage, proxy: Proxy) -> None:
    """What was asked is done, and nobody hears of it: three times, and then the connections are cut."""
    for _ in range(3):
        began = datetime.now(UTC)
        proxy.lose_replies = True
        await asyncio.sleep(0.2 + stage.chance.random() / 2)
        proxy.abort()
        proxy.heal()
        stage.fault("cut", "database", began, datetime.now(UTC))
        await asyncio.sleep(1)
    assert proxy.lost_bytes > 0, "no reply was on its way; nothing is proven"


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize(
    ("number", "fault", "injection", "recovers_within"),
    [
        ("F9", cut, "10 times reset or closed through a proxy", 5.0),
        ("F9", refuse, "no connection for 5 s", 5.0),
        ("F9", slow, "500 ms each way for 10 s", 5.0),
        ("F9", crumble, "1 byte every 1 ms for 8 s", 15.0),
        ("F9", half_open, "open connections stall for ever", CALL_SECONDS + 10),
        ("F9", freeze, "everything stalls for longer than a lease", 5.0),
        ("F3", lose_replies, "replies lost after the commit, 3 times", 5.0),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_the_way_to_the_database(
    make_stage: MakeStage, place: Path, number: str, fault: Fault, injection: str, recovers_within: float
) -> None:
    count = 1_500
    async with served(place / "server") as server, Proxy("127.0.0.1", server.port) as proxy:
        url = server.url(port=proxy.port)
        stage = make_stage(
            seed=9,
            url=url,
            owner_url=server.url("owner"),
            admin_url=server.url("admin"),
            TIMEBELL_CONNECT_SECONDS=str(CONNECT_SECONDS),
            TIMEBELL_STATEMENT_SECONDS=str(STATEMENT_SECONDS),
        )
        limits = {"connect_seconds": CONNECT_SECONDS, "statement_seconds": STATEMENT_SECONDS}
        async with asking(url, stage.owner_url, stage.history, **limits) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=15))
            await asyncio.sleep(3)
            await fault(stage, proxy)
            await feeding
            await stage.drained()
        records = load_history(stage.file)
        call, wait, needless = longest_call(records), longest_wait(records), needless_starts(records)
        stage.note(f"longest call {call:.1f} s, longest wait {wait:.1f} s, needless starts {needless}")
        figures = await stage.verdict(
            number,
            f"the way to the database: {fault.__name__.replace('_', ' ')}",
            injection,
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert wait <= recovers_within
        assert call <= CALL_SECONDS
        for node in stage.nodes.values():
            assert node.popen.poll() is None, node.words
