"""A start's instant is spent when the handler really begins, soon after it, or is lost: late starts never bunch up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster
from tests.engine.test_limits import Starts, busiest_second, enqueue, pass_time, three_nodes
from timebell.kernel import App, Handler, Job, Queue

STEP = timedelta(milliseconds=10)
SECOND = timedelta(seconds=1)


@pytest.mark.req("U-8", "J-0.2", "J-1.3")
@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_nodes_that_are_slow_to_turn_do_not_bunch_up_their_starts(cluster: Cluster, mode: Any) -> None:
    """Each node has its turn only now and then, and what it had leased meanwhile lies some way back."""
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", rate=50), mode))
    await enqueue(nodes[0], 250)
    await pass_time(cluster, nodes, SECOND, STEP)
    for step in range(200):
        cluster.clock.move(STEP)
        # In one second they are slow, in the next prompt: the late ones of the one meet the punctual ones of the other.
        every = 19 if step % 200 < 100 else 1
        for number, node in enumerate(nodes):
            if (step + 6 * number) % every == 0:
                await node.turn()
    assert len(starts.at) > 50
    assert busiest_second(starts.at) <= 50


@pytest.mark.req("U-8", "J-0.2")
async def test_an_instant_is_not_spent_before_the_mark_has_come_back(cluster: Cluster) -> None:
    """The marks of one node take a second; the starts that follow them must not come on top of the others'."""
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", rate=50), "external"))
    await enqueue(nodes[0], 300)
    await pass_time(cluster, nodes, SECOND, STEP)
    for _ in range(5):
        hold = nodes[0].stage.hold("after", "start_jobs")
        while not hold.reached.is_set():
            cluster.clock.move(STEP)
            await asyncio.gather(*(node.turn() for node in nodes[1:]))
            turning = asyncio.create_task(nodes[0].turn())
            reached = asyncio.create_task(hold.reached.wait())
            await asyncio.wait([turning, reached], return_when=asyncio.FIRST_COMPLETED, timeout=20)
            reached.cancel()
        for _ in range(15):
            cluster.clock.move(STEP)
            await asyncio.gather(*(node.turn() for node in nodes[1:]))
        hold.release()
        await turning
    await pass_time(cluster, nodes, SECOND, STEP)
    assert busiest_second(starts.at) <= 50


@pytest.mark.req("U-8")
async def test_a_start_at_one_a_minute_may_be_met_less_exactly(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    node = await cluster.node([starts.app(Queue(name="q", rate=1 / 60))])
    await enqueue(node, 5)
    for _ in range(100):
        cluster.clock.move(timedelta(seconds=2))
        await node.engine.beat()
        await node.turn()
    gaps = [later - earlier for earlier, later in zip(starts.at, starts.at[1:], strict=False)]
    assert len(starts.at) == 4
    assert min(gaps) >= 60 * SECOND


@pytest.mark.req("U-8")
async def test_a_burst_that_was_saved_up_begins_at_once(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    node = await cluster.node([starts.app(Queue(name="q", rate=10, burst=6))])
    cluster.clock.move(10 * SECOND)
    await enqueue(node, 20)
    await node.run_due()
    assert len(starts.at) == 6


@pytest.mark.req("U-8")
async def test_handlers_in_threads_keep_the_rate_too(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)

    def run(job: Job) -> None:
        starts.at.append(cluster.clock.now)

    handler = Handler(run=run, mode="external", queue="q")
    app = App(name="t", handlers={"t.run": handler}, queues=[Queue(name="q", rate=50)])
    nodes = await three_nodes(cluster, app, threads=4)
    await enqueue(nodes[0], 120)
    await pass_time(cluster, nodes, 3 * SECOND)
    assert len(starts.at) == 120
    assert busiest_second(starts.at) <= 50
