"""PostgreSQL dies under load and comes back; ours go on by themselves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import Owed, asking, feed
from tests.acceptance.faults.measures import longest_idle, longest_wait
from tests.acceptance.faults.servers import served
from tests.history import load as load_history


@pytest.mark.slow
@pytest.mark.req("U-1")
async def test_postgresql_is_killed_and_restarted(make_stage: MakeStage, place: Path) -> None:
    count, kills = 6_000, 4
    async with served(place / "server") as server:
        stage = make_stage(
            seed=50, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin")
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=30))
            for _ in range(kills):
                await asyncio.sleep(2 + 2 * stage.chance.random())
                began = datetime.now(UTC)
                await server.kill()
                await asyncio.sleep(2 * stage.chance.random())
                await server.start()
                stage.fault("kill", "database", began, datetime.now(UTC))
            await feeding
            await stage.drained()
        wait = longest_wait(load_history(stage.file))
        # Not the next start of any job: plain ones that were held in memory begin without a database.
        stage.note(f"what was due when it came back began within {wait:.1f} s")
        figures = await stage.verdict(
            *("F5", "PostgreSQL dies", f"kill -9 of postmaster and children, {kills} times, restarted"),
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert figures["recovered"] == kills
        assert wait <= 5
        for node in stage.nodes.values():
            assert node.popen.poll() is None, node.words


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_nothing_lies_idle_after_outages_longer_than_a_lease(
    make_stage: MakeStage, place: Path
) -> None:
    """Every node loses its life each time, with plain jobs of up to nine seconds under way."""
    kills, long = 6, 240
    async with served(place / "server") as server:
        stage = make_stage(
            seed=51,
            url=server.url(),
            owner_url=server.url("owner"),
            admin_url=server.url("admin"),
            lease_seconds=3.0,
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob", "cem")
            feeding = asyncio.create_task(feed(load, stage.chance, 2_000, seconds=60))
            for number in range(kills):
                now = datetime.now(UTC)
                await load.enqueue(
                    [
                        Owed(
                            name=f"long-{number}-{each}",
                            mode="plain",
                            due_at=now,
                            payload={"takes_ms": stage.chance.randrange(300, 9_000)},
                        )
                        for each in range(long)
                    ]
                )
                await asyncio.sleep(1 + stage.chance.random())
                began = datetime.now(UTC)
                await server.kill()
                await asyncio.sleep(stage.lease_seconds + 1 + 2 * stage.chance.random())
                await server.start()
                stage.fault("kill", "database", began, datetime.now(UTC))
                await asyncio.sleep(6)
            await feeding
            await stage.drained()
        figures = await stage.verdict(
            *("F5", "PostgreSQL is away", f"kill -9, back after more than a lease, {kills} times"),
        )
        idle = longest_idle(load_history(stage.file))
        stage.note(f"what was owed lay idle for {idle:.1f} s at most")
        assert figures["jobs"] == 2_000 + kills * long
        assert idle <= 5
        for node in stage.nodes.values():
            assert node.popen.poll() is None, node.words
