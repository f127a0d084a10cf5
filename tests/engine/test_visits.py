"""A job goes to a node that has its handler, whoever owns its slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine.store import EngineStore
from timebell.kernel import App, Enqueue, Handler, Job, Queue
from timebell.kernel.insights.insights import Insights
from timebell.kernel.models import Mode

SECOND = timedelta(seconds=1)
MODES: list[Mode] = ["plain", "external", "transactional"]


class Ran:
    """A handler that notes which jobs it ran."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def app(self, *kinds: str, mode: Mode = "plain") -> App:
        async def run(job: Job, *_: Any) -> None:
            self.jobs.append(job)

        handlers = {kind: Handler(run=run, mode=mode) for kind in kinds}
        return App(name=kinds[0].partition(".")[0], handlers=handlers, queues=[Queue(name="some")])

    def counts(self) -> Counter[str]:
        return Counter(job.kind for job in self.jobs)


async def enqueue(node: ClusterNode, kind: str, number: int, **options: Any) -> None:
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind=kind, **options) for _ in range(number)])


async def settle_down(*nodes: ClusterNode) -> None:
    """Let all of them learn who lives, and share the slots."""
    for _ in range(3):
        for node in nodes:
            await node.engine.beat()


@pytest.mark.req("U-1", "S-2.5")
@pytest.mark.parametrize("mode", MODES)
async def test_nodes_of_different_apps_run_each_what_they_can(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """Neither needs a sweep of minutes: what is due begins in the turn in which it is due."""
    ours, theirs = Ran(), Ran()
    one = await cluster.node([ours.app("one.run", mode=mode)])
    other = await cluster.node([theirs.app("other.run", mode=mode)])
    await settle_down(one, other)
    assert len(one.engine.node.owned) == len(other.engine.node.owned) == 128

    await enqueue(one, "one.run", 40, delay=SECOND)
    await enqueue(one, "other.run", 40, delay=SECOND)
    await one.turn()
    await other.turn()
    assert not ours.jobs
    cluster.clock.move(SECOND)
    await one.turn()
    await other.turn()

    assert ours.counts() == {"one.run": 40}
    assert theirs.counts() == {"other.run": 40}
    assert await owner.jobs() == []
    assert one.refused_count == other.refused_count == 0


async def test_what_all_nodes_can_run_is_visited_by_nobody_and_marked_by_nobody(cluster: Cluster) -> None:
    ran = Ran()
    nodes = [await cluster.node([ran.app("one.run")]) for _ in range(2)]
    await settle_down(*nodes)
    await enqueue(nodes[0], "one.run", 60)
    for node in nodes:
        await node.run_due()
    assert len(ran.jobs) == 60
    for node in nodes:
        assert not node.engine.worker._reader._visited
        assert node.stage.counts["start_jobs"] == 0


async def test_several_that_can_share_what_another_leaves(cluster: Cluster, owner: Owner) -> None:
    first, second = Ran(), Ran()
    owning = await cluster.node([Ran().app("other.run")])
    able = [await cluster.node([each.app("one.run")]) for each in (first, second)]
    await settle_down(owning, *able)
    await enqueue(owning, "one.run", 200)
    for _ in range(2):
        for node in (owning, *able):
            await node.turn()
    assert await owner.jobs() == []
    assert len({job.id for job in (*first.jobs, *second.jobs)}) == len(first.jobs) + len(second.jobs) == 200
    assert min(len(first.jobs), len(second.jobs)) > 50


async def test_when_the_one_that_came_dies_another_comes(cluster: Cluster, owner: Owner) -> None:
    """What it had begun is taken up by the slot's owner, which cannot run it either, and is run by the other."""
    first, second = Ran(), Ran()
    owning = await cluster.node([Ran().app("other.run")])
    doomed = await cluster.node([first.app("one.run", mode="external")])
    await settle_down(owning, doomed)
    await enqueue(owning, "one.run", 30)
    hold = doomed.stage.hold("after", "start_jobs")
    await doomed.run_until(hold)
    assert any(job["started_by"] == doomed.incarnation for job in await owner.jobs())
    await cluster.kill(doomed)
    heir = await cluster.node([second.app("one.run", mode="external")])
    await settle_down(owning, heir)
    for _ in range(40):
        cluster.clock.move(SECOND)
        for node in (owning, heir):
            await node.run_due()
    assert await owner.jobs() == []
    assert len({job.id for job in second.jobs}) == 30
    assert {row["node"] for row in await owner.log("done")} == {heir.incarnation}


async def test_one_that_comes_later_begins_at_once(cluster: Cluster, owner: Owner) -> None:
    """It owns nothing yet: the slots are all in the hands of one that has no handler."""
    late = Ran()
    owning = await cluster.node([Ran().app("other.run")])
    await owner.connection.execute(
        "INSERT INTO timebell.kinds (kind, queue, mode, payload_bytes_max) VALUES ('one.run', 'some', 'plain', 9999)"
    )
    await enqueue(owning, "one.run", 30)
    await owning.run_due()
    assert len(await owner.jobs()) == 30
    came = await cluster.node([late.app("one.run")])
    assert not came.engine.node.owned
    await came.turn()
    assert len(late.jobs) == 30
    assert await owner.jobs() == []


async def test_of_a_node_that_does_not_say_what_it_can_run_nothing_is_taken(
    cluster: Cluster, owner: Owner
) -> None:
    """In the middle of an upgrade: one of the release before may be running it, without a mark."""
    ran, theirs = Ran(), Ran()
    older = await cluster.node([theirs.app("one.run")])
    await owner.connection.execute("UPDATE timebell.nodes SET kinds = NULL")
    newer = await cluster.node([ran.app("one.run", "one.more")])
    await enqueue(newer, "one.run", 40)
    await enqueue(newer, "one.more", 40)
    await newer.run_due()
    assert not ran.jobs

    await older.run_due()
    await newer.run_due()
    assert not newer.engine.worker._reader._visited
    assert set(theirs.counts()) == {"one.run"}
    assert {job["kind"] for job in await owner.jobs()} == {"one.more"}
    assert {job["slot"] for job in await owner.jobs()} <= older.engine.node.owned.keys()
    await older.close()
    older.is_gone = True
    await newer.run_due()
    assert ran.counts() + theirs.counts() == {"one.run": 40, "one.more": 40}
    assert await owner.jobs() == []


async def test_a_mark_waits_for_whoever_takes_the_slot_and_then_is_refused(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """The new owner may run the job without a mark of its own, so a visitor must not begin it beside."""
    ran = Ran()
    owning = await cluster.node([Ran().app("other.run")])
    visitor = await cluster.node([ran.app("one.run")])
    await visitor.engine.beat()
    await enqueue(visitor, "one.run", 1)
    [job] = await owner.jobs()
    await caller.execute("BEGIN")
    await caller.execute(
        "UPDATE timebell.slots SET owner = NULL, epoch = epoch + 1 WHERE slot = $1", job["slot"]
    )
    store = EngineStore(cluster.clock)
    fence = visitor.engine.node.fence([(job["slot"], "one.run")]) | {"lock_timeout": "20s"}
    assert fence["visited_slots"] == [job["slot"]]

    async def mark() -> Any:
        async with visitor.bell.database.connection() as session:
            return await store.start_jobs(session, ids=[job["id"]], version=1, fence=fence)

    marking = asyncio.create_task(mark())
    await owner.until_someone_waits()
    await caller.execute("COMMIT")
    assert list(await marking) == []
    assert [row["started_by"] for row in await owner.jobs()] == [None]
    assert owning.incarnation


async def test_what_is_paused_or_over_ends_in_the_slot_of_another_too(cluster: Cluster, owner: Owner) -> None:
    ran = Ran()
    owning = await cluster.node([Ran().app("other.run")])
    visitor = await cluster.node([ran.app("one.run")])
    async with visitor.bell.transaction() as tx:
        await visitor.bell.pause(tx, "some")
    await enqueue(owning, "one.run", 20, queue="some")
    await enqueue(owning, "one.run", 20, expires_at=cluster.clock.now + SECOND)
    cluster.clock.move(2 * SECOND)
    await visitor.engine.worker.look_around()
    await visitor.turn()
    assert {job["lane"] for job in await owner.jobs()} == {2}
    assert len(await owner.log("expired")) == 20
    async with visitor.bell.transaction() as tx:
        await visitor.bell.resume(tx, "some")
    for node in (owning, visitor):
        await node.run_due()
    assert len(ran.jobs) == 20


async def test_who_enqueues_what_nobody_can_run_is_told(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Once a minute for each kind, in the log of whoever enqueues, and in what operators look at."""
    gone = await cluster.node([Ran().app("one.run")])
    writer = await cluster.node([Ran().app("other.run")])
    await gone.close()
    gone.is_gone = True
    await writer.engine.beat()
    for _ in range(3):
        await enqueue(writer, "one.run", 2)
        await enqueue(writer, "other.run", 1)
        await writer.bell.kinds_alive.close()
    await writer.run_due()
    await writer.bell.kinds_alive.close()
    [told] = [record for record in caplog.records if record.name == "timebell.kinds"]
    assert told.levelname == "WARNING"
    assert "one.run" in told.getMessage()
    assert writer.stage.counts["read_kinds_left"] == 1
    assert await Insights(writer.bell.database, cluster.clock).left_kinds() == {"one.run": 6}

    await cluster.node([Ran().app("one.run")])
    assert await Insights(writer.bell.database, cluster.clock).left_kinds() == {}
