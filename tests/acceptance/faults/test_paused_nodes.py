"""A node that stands still for longer than its lease, and goes on as if nothing had been."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Owed, asking, feed
from tests.acceptance.faults.measures import longest_idle
from tests.history import load as load_history


@pytest.mark.slow
@pytest.mark.req("U-2")
async def test_a_node_that_was_away_is_fenced(make_stage: MakeStage) -> None:
    """What it was in the middle of is begun elsewhere, and what it then writes about it is refused."""
    stage = make_stage(seed=4, lease_seconds=3.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        now = datetime.now(UTC)
        long = [
            Owed(name=f"long-{number}", mode=MODES[number % 3], due_at=now, payload={"takes_ms": 1500})
            for number in range(30)
        ]
        await load.enqueue(long)
        await asyncio.sleep(0.5)
        feeding = asyncio.create_task(feed(load, stage.chance, 2_000, seconds=25))
        for name in ("ada", "bob", "ada"):
            await stage.pause(name, 2 * stage.lease_seconds)
            await asyncio.sleep(1)
        await feeding
        await stage.drained()
    figures = await stage.verdict(
        "F4", "a node stands still", "SIGSTOP for two leases, then SIGCONT, 3 times"
    )
    assert figures["jobs"] == 2_030
    assert figures["recovered"] >= 5, "too little was running when the node stopped"
    assert figures["recovery_seconds_max"] <= stage.lease_seconds + 5
    assert longest_idle(load_history(stage.file)) <= 5
    for node in stage.nodes.values():
        assert node.popen.poll() is None, node.words


@pytest.mark.slow
@pytest.mark.req("U-2")
async def test_a_short_pause_costs_nothing(make_stage: MakeStage) -> None:
    """Within the lease nobody else begins what the node has begun."""
    stage = make_stage(seed=5, lease_seconds=8.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        feeding = asyncio.create_task(feed(load, stage.chance, 1_000, seconds=12))
        for name in ("ada", "bob", "ada"):
            await asyncio.sleep(1)
            await stage.pause(name, 2.0)
        await feeding
        await stage.drained()
    await stage.verdict("F4", "a node stands still", "SIGSTOP for a quarter of a lease, 3 times")
