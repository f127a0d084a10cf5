"""Starts that must be marked gather while others are being marked: one statement for each would cost more than all the
rest, and jobs that end one by one let others begin one by one."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import asyncpg

from tests.engine.support import Cluster, ClusterNode, Hold
from timebell.kernel import App, Enqueue, Handler, Job


class Crowd:
    """Jobs that become due one after the other, while the first two starts are held at their mark."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.app = App(name="t", handlers={"t.act": Handler(run=self._act, mode="external")})

    async def _act(self, job: Job) -> None:
        self.ran[str(job.key)] += 1

    async def come(self, node: ClusterNode, number: int) -> None:
        async with node.bell.transaction() as tx:
            await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", key=f"k{number}")])
        await node.passes_until(lambda: node.engine.worker.ledger.starting_count == number)

    async def seven(self, node: ClusterNode) -> list[Hold]:
        holds = [node.stage.hold("before", "start_jobs") for _ in range(2)]
        for number in range(1, 8):
            await self.come(node, number)
        for hold in holds:
            await node.passes_until(hold.reached.is_set)
        return holds

    @property
    def each_once(self) -> Counter[str]:
        return Counter(f"k{number}" for number in range(1, 8))


async def test_what_comes_while_two_are_marked_is_marked_together(cluster: Cluster) -> None:
    crowd = Crowd()
    node = await cluster.node([crowd.app])
    holds = await crowd.seven(node)
    assert node.stage.counts["start_jobs"] == 2
    for hold in holds:
        hold.release()
    await node.passes_until(lambda: node.engine.worker.counters.done == 7)
    assert crowd.ran == crowd.each_once
    assert node.stage.counts["start_jobs"] == 3


async def test_what_waits_behind_a_mark_that_fails_is_begun_later(cluster: Cluster) -> None:
    crowd = Crowd()
    node = await cluster.node([crowd.app])
    holds = await crowd.seven(node)
    for hold in holds:
        node.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
        hold.release()
    worker = node.engine.worker
    await node.passes_until(lambda: worker.ledger.starting_count == 0)
    for _ in range(3):
        cluster.clock.move(timedelta(seconds=5))
        await node.run_due()
    assert crowd.ran == crowd.each_once


async def test_nobody_waits_behind_starts_that_somebodys_open_transaction_holds_up(cluster: Cluster) -> None:
    """Who holds one row of many is found by halves, each of which waits for the lock: all others begin meanwhile."""
    crowd = Crowd()
    node = await cluster.node([crowd.app])
    holds = [node.stage.hold("before", "start_jobs") for _ in range(2)]
    for pair in (("a1", "a2"), ("b1", "b2")):
        node.stage.fail("before", "start_jobs", asyncpg.LockNotAvailableError("held"))
        async with node.bell.transaction() as tx:
            await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", key=key) for key in pair])
        await node.passes_until(lambda: any(hold.reached.is_set() for hold in holds))
    await node.passes_until(lambda: all(hold.reached.is_set() for hold in holds))
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", key="c")
    await node.passes_until(lambda: crowd.ran["c"] == 1)
    assert crowd.ran.total() == 1
    for hold in holds:
        hold.release()
    await node.passes_until(lambda: node.engine.worker.counters.done == 5)
    assert set(crowd.ran.values()) == {1}
