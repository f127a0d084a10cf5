"""Slots move between nodes, in order or after a death; a long send goes on, and is made once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Moment, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Outcome, Retry
from timebell.kernel.models import Mode

JOBS = 32


class LongSend:
    """A handler whose every attempt lasts until the test ends it."""

    def __init__(self, mode: Mode) -> None:
        self.begun: list[UUID] = []
        self.fails = False
        self.all_begun = asyncio.Event()
        self.over = asyncio.Event()
        self.app = App(name="t", handlers={"t.send": Handler(run=self._send, mode=mode)})

    async def _send(self, job: Job) -> Outcome | None:
        self.begun.append(job.id)
        if len(self.begun) >= JOBS:
            self.all_begun.set()
        await self.over.wait()
        return Retry("the other side hung up") if self.fails else None

    async def begin_on(self, node: ClusterNode) -> None:
        async with node.bell.transaction() as tx:
            await node.bell.enqueue_many(tx, [Enqueue(kind="t.send") for _ in range(JOBS)])
        await node.passes_until(self.all_begun.is_set)


async def hand_over(old: ClusterNode, new: ClusterNode) -> set[int]:
    """Both beat until the slots are shared evenly; answers with those that the new node owns."""
    for _ in range(3):
        await old.engine.beat()
        await new.engine.beat()
    return set(new.engine.node.owned)


async def test_a_slot_moves_during_a_long_send_and_nothing_is_sent_twice(
    cluster: Cluster, owner: Owner
) -> None:
    """Failure 5: the new owner leaves started rows of a living node alone, and the old one's finish counts."""
    send = LongSend("external")
    old = await cluster.node([send.app])
    await send.begin_on(old)
    new = await cluster.node([send.app])
    moved = await hand_over(old, new)
    assert moved & {job["slot"] for job in await owner.jobs()}

    cluster.clock.move(timedelta(minutes=4))
    await new.run_due()
    assert len(send.begun) == JOBS
    send.over.set()
    await old.run_due()

    assert await owner.jobs() == []
    assert {row["node"] for row in await owner.log("done")} == {old.incarnation}
    assert len(send.begun) == len(set(send.begun)) == JOBS
    assert old.refused_count == 0


async def test_an_attempt_that_failed_after_its_slot_moved_is_tried_again_by_the_new_owner(
    cluster: Cluster, owner: Owner
) -> None:
    send = LongSend("external")
    old = await cluster.node([send.app])
    await send.begin_on(old)
    new = await cluster.node([send.app])
    moved = await hand_over(old, new)
    in_moved = {job["id"] for job in await owner.jobs() if job["slot"] in moved}
    send.fails = True
    send.over.set()
    await old.run_due()
    assert len(await owner.log("pending")) == JOBS

    send.fails = False
    cluster.clock.move(timedelta(minutes=2))
    for node in (old, new):
        await node.run_due()
    by_new = {row["id"] for row in await owner.log("done") if row["node"] == new.incarnation}
    assert by_new == in_moved
    assert await owner.jobs() == []


async def test_a_slot_in_which_a_plain_job_runs_moves_only_when_it_is_done(
    cluster: Cluster, owner: Owner
) -> None:
    """Only the epoch of its slot protects a plain job, so a slot in use is released later."""
    send = LongSend("plain")
    old = await cluster.node([send.app])
    await send.begin_on(old)
    in_use = {job["slot"] for job in await owner.jobs()}
    new = await cluster.node([send.app])
    moved = await hand_over(old, new)
    assert moved
    assert not moved & in_use
    await new.run_due()
    send.over.set()
    await old.passes_until(old.engine.worker.is_idle)
    moved = await hand_over(old, new)

    assert len(moved) == 128
    assert moved & in_use
    assert await owner.jobs() == []
    assert len(send.begun) == JOBS
    assert old.refused_count == 0


async def test_a_slot_whose_finish_is_under_way_moves_only_when_it_is_written(
    cluster: Cluster, owner: Owner
) -> None:
    """The handler has ended and its finish is on the way: released now, the slot would refuse it."""
    send = LongSend("plain")
    send.over.set()
    old = await cluster.node([send.app])
    async with old.bell.transaction() as tx:
        await old.bell.enqueue_many(tx, [Enqueue(kind="t.send") for _ in range(JOBS)])
    finish = old.stage.hold("before", "finish_jobs")
    await old.run_until(finish)
    in_use = {job["slot"] for job in await owner.jobs()}
    new = await cluster.node([send.app])
    assert not await hand_over(old, new) & in_use
    await old.go_on(finish)

    assert old.refused_count == 0
    assert await hand_over(old, new) & in_use
    assert await owner.jobs() == []


async def test_the_jobs_of_a_dead_node_are_recovered_whoever_owns_their_slots(
    cluster: Cluster, owner: Owner
) -> None:
    """A job that was started before its slot moved is not in a slot that its dead node abandoned."""
    send = LongSend("external")
    old = await cluster.node([send.app])
    await send.begin_on(old)
    new = await cluster.node([send.app])
    assert await hand_over(old, new)
    await new.run_due()
    await cluster.kill(old)
    send.over.set()
    await new.engine.beat()
    await new.turn()

    assert await owner.jobs() == []
    assert len(await owner.log("done")) == JOBS
    doubts = [row for row in await owner.log("pending") if row["reason"] == "uncertain"]
    assert len(doubts) == JOBS


@pytest.mark.req("U-2")
async def test_a_node_that_lost_its_lease_begins_a_new_life(cluster: Cluster, owner: Owner) -> None:
    """Nothing that it knew of its slots holds any more, even where nobody has taken them."""
    send = LongSend("external")
    send.over.set()
    node = await cluster.node([send.app])
    before = node.incarnation
    await owner.expire_lease(before)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.send")
    await node.run_due()

    assert node.incarnation > before
    assert await owner.jobs() == []
    (end,) = await owner.log("done")
    assert end["node"] == node.incarnation
    assert await owner.value("SELECT min(epoch) FROM timebell.slots") == 2


async def test_nothing_starts_once_the_lease_could_have_run_out(cluster: Cluster, owner: Owner) -> None:
    """Counted from when the last renewal was sent, with a margin, on the clock of this process alone."""
    send = LongSend("external")
    send.over.set()
    node = await cluster.node([send.app], lease_seconds=30, lease_margin_seconds=5)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.send", delay=timedelta(seconds=25))
    cluster.clock.move(timedelta(seconds=25))
    for _ in range(20):
        await node.engine._pass(0.02)
    assert send.begun == []
    await node.engine.beat()
    await node.turn()
    assert len(send.begun) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_node_reads_its_own_slots_only_also_where_a_release_was_not_heard_of(
    cluster: Cluster, moment: Moment
) -> None:
    """Whoever reads a slot of another keeps the hints for it to itself."""
    send = LongSend("external")
    old, new = await cluster.node([send.app]), await cluster.node([send.app])
    old.stage.fail(moment, "release_slots", ConnectionResetError("the line is dead"))
    with pytest.raises(ConnectionResetError):
        await old.engine.beat()
    await hand_over(old, new)
    for node in (old, new):
        owned = set(node.engine.node.owned)
        assert len(owned) == 128
        assert {slot for slot, _ in node.engine.worker._reader._cursors} == owned


async def test_what_still_runs_on_a_node_that_lost_its_lease_is_not_run_twice_by_it(
    cluster: Cluster, owner: Owner
) -> None:
    """In its new life the node finds its own starts of the old one, and knows them."""
    send = LongSend("external")
    node = await cluster.node([send.app])
    await send.begin_on(node)
    await owner.expire_lease(node.incarnation)
    await node.engine.beat()
    node.engine.worker.sweep()
    reads = node.stage.counts["read_due"]
    await node.passes_until(lambda: node.stage.counts["read_due"] >= reads + 3)
    send.over.set()
    await node.run_due()
    assert len(send.begun) == JOBS
    assert await owner.jobs() == []
    assert len(await owner.log("done")) == JOBS
