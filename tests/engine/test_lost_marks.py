"""A start that was marked and then not begun is taken back by whoever marked it, wherever its slot is by then."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from tests.engine.support import Cluster, Owner
from timebell.kernel import App, Enqueue, Handler, Job

COUNT = 64


@pytest.mark.req("U-1")
async def test_a_mark_whose_answer_was_lost_before_its_slot_moved(cluster: Cluster, owner: Owner) -> None:
    """The new owner leaves a started job alone while its node lives, so nobody else would ever begin it."""
    ran: Counter[str] = Counter()

    async def act(job: Job) -> None:
        ran[str(job.key)] += 1

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="external")})
    first = await cluster.node([app])
    async with first.bell.transaction() as tx:
        await first.bell.enqueue_many(tx, [Enqueue(kind="t.act", key=f"k{n}") for n in range(COUNT)])
    first.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
    first.engine.worker.sweep()
    await first.passes_until(lambda: first.engine.worker.counters.not_begun == COUNT)
    second = await cluster.node([app])
    for node in (first, second, first, second):
        await node.engine.beat()
    assert len(second.engine.node.owned) == 128
    for _ in range(3):
        for node in (first, second):
            await node.run_due()
        cluster.clock.move(timedelta(seconds=5))
    assert await owner.jobs() == []
    assert ran == Counter(f"k{n}" for n in range(COUNT))


@pytest.mark.req("U-1")
async def test_a_suspect_in_a_transaction_whose_slot_moved_before_it_was_locked(
    cluster: Cluster, owner: Owner
) -> None:
    """Its start was marked under the epoch of the slot; from then on the mark is what counts."""
    ran: Counter[str] = Counter()

    async def act(job: Job) -> None:
        ran[str(job.key)] += 1

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="transactional")})
    killed = await cluster.node([app])
    async with killed.bell.transaction() as tx:
        await killed.bell.enqueue_many(tx, [Enqueue(kind="t.act", key=f"k{n}") for n in range(COUNT)])
    await cluster.kill(killed)
    first = await cluster.node([app])
    locking = first.stage.hold("before", "lock_job")
    await first.run_until(locking)
    second = await cluster.node([app])
    for node in (first, second, first, second):
        await node.engine.beat()
    await first.go_on(locking)
    for _ in range(3):
        for node in (first, second):
            await node.run_due()
        cluster.clock.move(timedelta(seconds=5))
    assert await owner.jobs() == []
    assert ran == Counter(f"k{n}" for n in range(COUNT))
