"""Processes that start at the same instant, or under the same name."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import free_port
from timebell.testing.database import TestDatabase


@pytest.mark.slow
@pytest.mark.req("U-2")
async def test_one_name_for_two_nodes(make_stage: MakeStage) -> None:
    """A name is for people; who owns what is decided by incarnations, so both work and neither harms the other."""
    stage = make_stage(seed=11)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("twin")
        first = stage.nodes["twin"]
        await stage.start("twin")

        async def is_shared() -> bool:
            return {
                row["count"] for row in await stage.ask("SELECT count(*) FROM timebell.slots GROUP BY owner")
            } == {128}

        await until(is_shared, 30, "even shares")
        await feed(load, stage.chance, 1_500, seconds=8)
        await stage.drained()
    assert first.popen.poll() is None, first.words
    await stage.verdict("F4", "one name for two nodes", "the same node name started twice")


@pytest.mark.slow
@pytest.mark.req("S-2.5")
async def test_three_at_the_same_instant_on_an_empty_database(
    make_stage: MakeStage, empty_database: TestDatabase
) -> None:
    """Each brings the schema up to date, and one after the other they do."""
    stage = make_stage(
        seed=12,
        url=empty_database.url,
        owner_url=empty_database.owner_url,
        admin_url=empty_database.admin_url,
    )
    for name in ("ada", "bob", "cyd"):
        port = free_port()
        stage.launch(name, "up", "--port", port, port=port, TIMEBELL_OWNER_URL=stage.owner_url)
    for node in stage.nodes.values():
        await asyncio.to_thread(node.wait_ready)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await feed(load, stage.chance, 1_500, seconds=8)
        await stage.drained()
    owners = await stage.ask("SELECT owner, count(*) FROM timebell.slots GROUP BY owner")
    assert sorted(row["count"] for row in owners) == [85, 85, 86]
    await stage.verdict(
        "F4", "three nodes at once", "three `timebell up` at one instant on an empty database"
    )
