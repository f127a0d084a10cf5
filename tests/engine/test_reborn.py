"""A node whose lease ran out while its process went on: nothing that it was in the middle of lies idle afterwards."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner, has_read_all
from timebell.kernel import App, Enqueue, Handler, Job
from timebell.kernel.models import Mode

JOBS = 24


class Slow:
    """A handler whose attempts last until the test lets them end; which node ran what is written down."""

    def __init__(self, mode: Mode = "plain") -> None:
        self.mode = mode
        self.begun: list[tuple[str, UUID]] = []
        self.over: dict[str, asyncio.Event] = {}

    def app(self, name: str) -> App:
        over = self.over[name] = asyncio.Event()

        async def run(job: Job) -> None:
            self.begun.append((name, job.id))
            await over.wait()

        return App(name="t", handlers={"t.slow": Handler(run=run, mode=self.mode)})

    def on(self, name: str) -> int:
        return sum(1 for where, _ in self.begun if where == name)


async def enqueue(node: ClusterNode, count: int = JOBS) -> None:
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.slow") for _ in range(count)])


async def be_reborn(owner: Owner, node: ClusterNode, *, times: int = 1) -> None:
    """As after an outage that was longer than a lease: the process went on, its life did not."""
    for _ in range(times):
        await owner.expire_lease(node.incarnation)
        await node.engine.beat()


async def read_everything(node: ClusterNode) -> None:
    await node.passes_until(lambda: has_read_all(node.engine))


@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize("times", [1, 3])
async def test_what_a_plain_job_did_in_an_earlier_life_counts_in_this_one(
    cluster: Cluster, owner: Owner, times: int
) -> None:
    slow = Slow()
    node = await cluster.node([slow.app("a")])
    await enqueue(node)
    await node.passes_until(lambda: slow.on("a") == JOBS)
    await be_reborn(owner, node, times=times)
    await read_everything(node)
    slow.over["a"].set()
    await node.turn()

    assert await owner.jobs() == []
    assert slow.on("a") == JOBS, "begun again beside itself"


@pytest.mark.req("U-1", "U-2")
async def test_a_refused_end_is_looked_at_again_at_once(cluster: Cluster, owner: Owner) -> None:
    """Another node has begun the job meanwhile and died with it; the row waits in a slot of ours, and we know it."""
    slow = Slow()
    ours = await cluster.node([slow.app("a")])
    await enqueue(ours)
    await ours.passes_until(lambda: slow.on("a") == JOBS)
    cluster.clock.move(timedelta(seconds=20))
    await owner.expire_lease(ours.incarnation)
    other = await cluster.node([slow.app("b")])
    await other.passes_until(lambda: slow.on("b") >= 12)
    await cluster.kill(other)
    await ours.engine.beat()
    await read_everything(ours)
    slow.over["a"].set()
    for _ in range(40):
        await ours.turn()
        cluster.clock.move(timedelta(milliseconds=100))

    assert await owner.jobs() == []


@pytest.mark.req("U-1", "U-2")
async def test_what_waited_for_its_end_to_be_written_is_not_forgotten(cluster: Cluster, owner: Owner) -> None:
    """The handlers had ended, the writing was under way while the life was lost, and it was refused."""
    slow = Slow()
    node = await cluster.node([slow.app("a")])
    slow.over["a"].set()
    await enqueue(node)
    writing = node.stage.hold("before", "finish_jobs")
    await node.run_until(writing)
    cluster.clock.move(timedelta(seconds=20))
    await be_reborn(owner, node)
    await read_everything(node)
    await node.go_on(writing)
    await node.turn()

    assert await owner.jobs() == []
    assert node.refused_count > 0


@pytest.mark.req("U-2")
async def test_the_slots_of_a_process_that_lives_on_are_not_under_suspicion(
    cluster: Cluster, owner: Owner
) -> None:
    """Every node's lease ran out while the database was away. Nobody died, so nothing needs care."""
    slow = Slow()
    first = await cluster.node([slow.app("a")])
    second = await cluster.node([slow.app("b")])
    for _ in range(3):
        await first.engine.beat()
        await second.engine.beat()
    await enqueue(first, 100)
    await owner.expire_lease(first.incarnation)
    await owner.expire_lease(second.incarnation)
    await first.engine.beat()
    await second.engine.beat()
    await first.engine.beat()
    await read_everything(first)
    await first.passes_until(lambda: slow.on("a") >= 20)

    assert all(each.suspect_until is None for each in first.engine.node.owned.values())
    slow.over["a"].set()
    slow.over["b"].set()


@pytest.mark.req("U-2")
async def test_a_slot_whose_owner_did_not_come_back_stays_under_suspicion(
    cluster: Cluster, owner: Owner
) -> None:
    slow = Slow()
    dead = await cluster.node([slow.app("a")])
    await cluster.kill(dead)
    other = await cluster.node([slow.app("b")])

    assert all(each.suspect_until is not None for each in other.engine.node.owned.values())
    slow.over["b"].set()


@pytest.mark.req("U-2", "M-5.2")
async def test_a_slot_that_cannot_leave_soon_is_worked_on_meanwhile(cluster: Cluster, owner: Owner) -> None:
    """A plain job that takes long keeps its slot; the others in that slot must not wait for its end."""
    slow = Slow()
    old = await cluster.node([slow.app("a")])
    await enqueue(old)
    await old.passes_until(lambda: slow.on("a") == JOBS)
    new = await cluster.node([slow.app("b")])
    for _ in range(3):
        await old.engine.beat()
        await new.engine.beat()
    assert old.engine.node._leaving, "nothing had to move"
    cluster.clock.move(timedelta(seconds=1.5))
    await old.engine.beat()
    busy = {job["slot"] for job in await owner.jobs()}
    assert busy <= {slot for slot in range(256) if old.engine.node.ownership(slot) is not None}
    await new.engine.beat()
    assert len(new.engine.node.owned) == 128, "others go in their place"

    slow.over["a"].set()
    await old.turn()
    assert await owner.jobs() == []
