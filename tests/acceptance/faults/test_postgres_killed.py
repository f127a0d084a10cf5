"""PostgreSQL dies under load and comes back; ours go on by themselves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.measures import longest_wait
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
