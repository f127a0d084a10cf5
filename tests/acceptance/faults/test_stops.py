"""Nodes that are told to stop, once or twice, while they are at work."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Owed, asking, feed
from tests.acceptance.faults.stage import Stage
from tests.history import load as load_history


def begun_too_often(stage: Stage) -> list[str]:
    """Jobs that began more often than their handler asked for or was interrupted."""
    begun: Counter[str] = Counter()
    for record in load_history(stage.file):
        if record.op == "start":
            begun[record.key] += 1
        elif record.op == "end" and record.answer != "done":
            begun[record.key] -= 1
    return [name for name, times in begun.items() if times != 1]


@pytest.mark.slow
@pytest.mark.req("U-21")
async def test_rolling_restarts(make_stage: MakeStage) -> None:
    """A deployment: one node after the other is stopped and started, three rounds, and nobody notices."""
    stage = make_stage(seed=27)
    names = ("ada", "bob", "cyd")
    longest = 0.0
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start(*names)
        feeding = asyncio.create_task(feed(load, stage.chance, 6_000, seconds=30))
        for _ in range(3):
            for name in names:
                await asyncio.sleep(0.5 + stage.chance.random())
                longest = max(longest, await stage.stop(name))
                await stage.start(name)
        await feeding
        await stage.drained()
    assert begun_too_often(stage) == []
    figures = await stage.verdict(
        "F27",
        "a rolling restart",
        "SIGTERM to one of 3 nodes after the other, 9 times",
        recovery_seconds=longest,
    )
    assert figures["jobs"] == 6_000
    assert longest <= 10


@pytest.mark.slow
@pytest.mark.req("U-21")
async def test_all_stop_under_load(make_stage: MakeStage) -> None:
    """Nobody is left to take over; whoever starts next goes on where they stopped."""
    stage = make_stage(seed=28)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        feeding = asyncio.create_task(feed(load, stage.chance, 4_000, seconds=20))
        for _ in range(3):
            await asyncio.sleep(2)
            await asyncio.gather(stage.stop("ada"), stage.stop("bob"))
            await asyncio.sleep(1)
            await stage.start("ada", "bob")
        await feeding
        await stage.drained()
    assert begun_too_often(stage) == []
    await stage.verdict("F27", "every node stops", "SIGTERM to all nodes, started a second later, 3 times")


@pytest.mark.slow
@pytest.mark.req("U-21")
async def test_a_second_signal_gives_back_what_runs(make_stage: MakeStage) -> None:
    """Handlers that would take a minute are interrupted, given back, and done by the next node."""
    stage = make_stage(seed=29, TIMEBELL_STOP_SECONDS="60")
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada")
        now = datetime.now(UTC)
        await load.enqueue(
            [
                Owed(name=f"long-{number}", mode=MODES[number % 3], due_at=now, payload={"takes_ms": 2_000})
                for number in range(15)
            ]
        )
        feeding = asyncio.create_task(feed(load, stage.chance, 1_000, seconds=6))
        await asyncio.sleep(2)
        took = await stage.stop("ada", times=3)
        await stage.start("bob")
        await feeding
        await stage.drained()
    assert begun_too_often(stage) == []
    figures = await stage.verdict(
        "F27",
        "a second SIGTERM",
        "SIGTERM 3 times, 0.2 s apart, with jobs that take long",
        recovery_seconds=took,
    )
    assert took <= 10
    assert figures["starts"] > figures["jobs"], "nothing was interrupted; nothing is proven"
