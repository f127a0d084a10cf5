"""A start that was marked and then not begun is taken back by whoever marked it, wherever its slot is by then."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, Literal

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine.worker import marks
from timebell.kernel import App, Enqueue, Handler, Job
from timebell.kernel.models import Mode


class Crowd:
    """Jobs in many slots, each of which must run once, whichever node it is on by then."""

    def __init__(self, mode: Mode, *, on_uncertain: Literal["retry", "dead"] = "retry") -> None:
        self.keys = [f"k{number}" for number in range(64)]
        self.ran: Counter[str] = Counter()
        handler = Handler(run=self._act, mode=mode, on_uncertain=on_uncertain)
        self.app = App(name="t", handlers={"t.act": handler})

    async def _act(self, job: Job) -> None:
        self.ran[str(job.key)] += 1

    async def enqueue(self, node: ClusterNode) -> None:
        async with node.bell.transaction() as tx:
            await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", key=key) for key in self.keys])

    async def runs_once(self, cluster: Cluster, owner: Owner, *nodes: ClusterNode) -> None:
        for _ in range(3):
            for node in nodes:
                await node.run_due()
            cluster.clock.move(timedelta(seconds=5))
        assert await owner.jobs() == []
        assert self.ran == Counter(self.keys)


async def share_slots(cluster: Cluster, first: ClusterNode, app: App) -> ClusterNode:
    """Half of the slots of a node go to a new one."""
    second = await cluster.node([app])
    for node in (first, second, first, second):
        await node.engine.beat()
    assert len(second.engine.node.owned) == 128
    return second


@pytest.mark.req("U-1")
async def test_a_mark_whose_answer_was_lost_before_its_slot_moved(cluster: Cluster, owner: Owner) -> None:
    """The new owner leaves a started job alone while its node lives, so nobody else would ever begin it."""
    crowd = Crowd("external")
    first = await cluster.node([crowd.app])
    await crowd.enqueue(first)
    first.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
    first.engine.worker.sweep()
    await first.passes_until(lambda: first.engine.worker.counters.not_begun == len(crowd.keys))
    second = await share_slots(cluster, first, crowd.app)
    await crowd.runs_once(cluster, owner, first, second)


@pytest.mark.req("U-1")
async def test_a_suspect_in_a_transaction_whose_slot_moved_before_it_was_locked(
    cluster: Cluster, owner: Owner
) -> None:
    """Its start was marked under the epoch of the slot; from then on the mark is what counts."""
    crowd = Crowd("transactional")
    killed = await cluster.node([crowd.app])
    await crowd.enqueue(killed)
    await cluster.kill(killed)
    first = await cluster.node([crowd.app])
    locking = first.stage.hold("before", "lock_job")
    await first.run_until(locking)
    second = await share_slots(cluster, first, crowd.app)
    await first.go_on(locking)
    await crowd.runs_once(cluster, owner, first, second)


@pytest.mark.req("U-1")
@pytest.mark.parametrize("mode", ["plain", "transactional"])
async def test_a_careful_start_that_is_taken_back_counts_as_no_crash(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """The mark of what was due in an abandoned slot counts as a crash, and these wait for an operator after one."""
    crowd = Crowd(mode, on_uncertain="dead")
    killed = await cluster.node([crowd.app])
    await crowd.enqueue(killed)
    await cluster.kill(killed)
    node = await cluster.node([crowd.app])
    node.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
    node.engine.worker.sweep()
    await node.passes_until(lambda: node.engine.worker.counters.not_begun > 0)
    await crowd.runs_once(cluster, owner, node)
    assert node.stage.counts["give_back_jobs"] > 0


async def test_a_read_that_began_before_the_mark_does_not_bring_the_job_back_as_it_was(
    cluster: Cluster, owner: Owner
) -> None:
    """A plain job that waited in memory for long is marked; what a fresh read brings is begun without a mark."""
    crowd = Crowd("plain")
    crowd.keys = ["late"]
    node = await cluster.node([crowd.app])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", key="late", delay=timedelta(seconds=0.5))
    await node.turn()
    assert len(node.engine.worker.ledger) == 1
    cluster.clock.move(timedelta(seconds=4))
    await node.engine.beat()
    reading, marking = node.stage.hold("after", "read_due"), node.stage.hold("before", "start_jobs")
    node.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
    node.engine.worker.hint({-1: cluster.clock.now - timedelta(minutes=1)})
    await node.passes_until(lambda: reading.reached.is_set() and marking.reached.is_set())
    marking.release()
    lost = node.engine.worker._marks
    await node.passes_until(lambda: node.stage.counts["give_back_jobs"] == 1 and not len(lost))
    reading.release()
    await crowd.runs_once(cluster, owner, node)
    assert node.refused_count == 0


async def test_a_node_that_stops_gives_its_marks_back_once_nobody_holds_them(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    crowd = Crowd("external")
    node = await cluster.node([crowd.app])
    await crowd.enqueue(node)
    marked = node.stage.hold("after", "start_jobs")
    node.engine.worker.sweep()
    await node.passes_until(marked.reached.is_set)
    stopping = asyncio.create_task(node.close())
    async with caller.transaction():
        await caller.execute("SELECT FROM timebell.jobs WHERE key < 'k3' FOR UPDATE")
        marked.release()
        await node.passes_until(
            lambda: node.stage.counts["give_back_jobs"] > 0 and not node.engine.worker.background.going_on
        )
        assert {row["key"] < "k3" for row in await owner.jobs() if row["started_by"] is not None} == {True}
    cluster.clock.move(timedelta(seconds=1))
    await stopping
    node.is_gone = True
    assert {(row["started_by"], row["attempt"]) for row in await owner.jobs()} == {(None, 0)}
    other = await cluster.node([crowd.app])
    await crowd.runs_once(cluster, owner, other)
    assert {row["state"] for row in await owner.log()} == {"done"}


async def test_marks_that_callers_hold_do_not_keep_the_others_from_being_taken_back(
    cluster: Cluster, owner: Owner, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than one statement takes would otherwise be asked for again and again, and nobody else."""
    monkeypatch.setattr(marks, "_GIVE_BACK_MAX", 8)
    crowd = Crowd("external")
    node = await cluster.node([crowd.app])
    await crowd.enqueue(node)
    worker = node.engine.worker
    lost = worker._marks
    asked = node.stage.hold("before", "give_back_jobs")
    node.stage.fail("after", "start_jobs", ConnectionResetError("the line is dead"))
    worker.sweep()
    await node.passes_until(asked.reached.is_set)
    assert len(lost) == len(crowd.keys)
    async with caller.transaction():
        held = list(lost._lost)[:8]
        await caller.execute("SELECT FROM timebell.jobs WHERE id = ANY($1) FOR UPDATE", held)
        asked.release()
        for _ in range(len(crowd.keys) // 8 + 1):
            await node.passes_until(lambda: not worker.background.going_on)
            cluster.clock.move(timedelta(seconds=1))
            await lost.give_back()
        assert {row["id"] for row in await owner.jobs() if row["started_by"] is not None} == set(held)
    cluster.clock.move(timedelta(seconds=1))
    await crowd.runs_once(cluster, owner, node)
