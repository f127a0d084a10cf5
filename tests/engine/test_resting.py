"""A node with nothing to do rests: no tick asks to be called again at once while it waits for the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.support import Cluster
from timebell.kernel import App, Handler, Job


async def test_a_node_rests_while_a_long_sweep_goes_on(cluster: Cluster) -> None:
    """The time of the next full sweep has come, but it cannot begin before this one has ended."""
    node = await cluster.node([App(name="t")])
    hold = node.stage.hold("before", "read_due")
    await node.engine.worker.tick()
    async with asyncio.timeout(20):
        await hold.reached.wait()
    # It begins, and its time comes again.
    for _ in range(2):
        cluster.clock.move(timedelta(seconds=70))
        await node.engine.beat()
        await node.engine.worker.tick()
    assert await node.engine.worker.tick() > 0
    hold.release()


async def test_a_node_rests_while_all_its_writes_are_under_way(cluster: Cluster, caller: Any) -> None:
    """What a caller's open transaction held up is ripe again, but no further write can begin."""
    ran: list[UUID] = []

    async def act(job: Job) -> None:
        ran.append(job.id)

    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=act, mode="plain")})])
    worker = node.engine.worker

    def are_stuck(count: int) -> Callable[[], bool]:
        return lambda: len(worker._settler._stuck) == count

    async with caller.transaction():
        for number in (1, 2, 3):
            async with node.bell.transaction() as tx:
                await node.bell.enqueue(tx, "t.act")
            await caller.execute("SELECT FROM timebell.jobs FOR UPDATE")
            await node.passes_until(are_stuck(number))
            cluster.clock.move(timedelta(milliseconds=100))
        cluster.clock.move(timedelta(milliseconds=110))
        holds = [node.stage.hold("before", "finish_jobs") for _ in range(2)]
        for hold in holds:
            cluster.clock.move(timedelta(milliseconds=100))
            await worker.tick()
            async with asyncio.timeout(20):
                await hold.reached.wait()
        cluster.clock.move(timedelta(milliseconds=100))
        assert worker._settler.stuck_in() == 0
        assert await worker.tick() > 0
        for hold in holds:
            hold.release()
