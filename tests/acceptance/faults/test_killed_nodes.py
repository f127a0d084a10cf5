"""Nodes that are killed with -9 while they work, and started again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking, feed
from tests.acceptance.faults.stage import Stage

NAMES = ("ada", "bob", "cyd")
LONG = 6


async def kill_again_and_again(
    stage: Stage,
    load: Load,
    feeding: asyncio.Task[None],
    every_seconds: float,
    *,
    long: int = LONG,
    takes_ms: int = 500,
) -> int:
    """One node after another, in the middle of something, each started again at once, for as long as work comes in."""
    kills = 0
    while not feeding.done():
        await asyncio.sleep(every_seconds * (0.75 + stage.chance.random() / 2))
        now = datetime.now(UTC)
        await load.enqueue(
            [
                Owed(
                    name=f"long-{kills}-{number}",
                    mode=MODES[number % 3],
                    due_at=now,
                    payload={"takes_ms": takes_ms},
                )
                for number in range(long)
            ]
        )
        await asyncio.sleep(0.3)
        name = stage.chance.choice(NAMES)
        stage.kill(name)
        await stage.start(name, is_ready=False)
        kills += 1
    return kills


@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize(
    ("count", "seconds", "every_seconds"),
    [(1_500, 9.0, 3.0), pytest.param(20_000, 90.0, 6.0, marks=pytest.mark.slow)],
)
async def test_three_nodes_one_killed_every_few_seconds(
    make_stage: MakeStage, count: int, seconds: float, every_seconds: float
) -> None:
    stage = make_stage(seed=31, lease_seconds=4.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start(*NAMES)
        feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=seconds))
        kills = await kill_again_and_again(stage, load, feeding, every_seconds)
        await feeding
        await stage.drained()
    figures = await stage.verdict(
        "F1", "a node dies", f"3 nodes, kill -9 every {every_seconds:g} s, started again"
    )
    assert figures["jobs"] == count + kills * LONG
    assert kills >= 2
    assert figures["recovered"] > 0, "no job was running when its node was killed; nothing is proven"
    if every_seconds > stage.lease_seconds:
        # Where nodes die faster than leases run out, whoever takes a dead node's job may be the next to die.
        assert figures["recovery_seconds_max"] <= stage.lease_seconds + 5
    assert not await stage.count("timebell.dead_jobs"), "no job was to blame"


@pytest.mark.slow
async def test_nodes_killed_as_fast_as_their_leases_run_out(make_stage: MakeStage) -> None:
    """Beyond what is promised, and measured: what was just taken over is hit again, and again.

    Nothing is lost or doubled. How long it takes, and whether a job that did no harm is taken for a killer, is told.
    """
    stage = make_stage(seed=31, lease_seconds=4.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start(*NAMES)
        feeding = asyncio.create_task(feed(load, stage.chance, 20_000, seconds=90))
        kills = await kill_again_and_again(stage, load, feeding, 4.0, long=12, takes_ms=1000)
        await feeding
        await stage.drained()
    figures = await stage.verdict(
        *("F1", "a node dies, too often", "3 nodes, kill -9 every 4 s, the length of a lease, jobs of 1 s"),
        measured=("buried",),
    )
    assert figures["jobs"] == 20_000 + kills * 12
