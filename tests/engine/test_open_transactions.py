"""An open transaction of a caller holds up its own job and no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Outcome, Retry
from timebell.kernel.models import Mode

JOBS = 1_000


class Crowd:
    """A thousand jobs of one kind, due at once."""

    def __init__(self, mode: Mode, outcome: Outcome | None = None) -> None:
        self.ran: list[UUID] = []
        self._outcome = outcome
        self.app = App(name="t", handlers={"t.act": Handler(run=self._run, mode=mode)})

    async def _run(self, job: Job) -> Outcome | None:
        self.ran.append(job.id)
        return self._outcome

    async def enqueue(self, node: ClusterNode, **options: Any) -> list[UUID]:
        jobs = [Enqueue(kind="t.act", **options) for _ in range(JOBS)]
        async with node.bell.transaction() as tx:
            return [each.id for each in await node.bell.enqueue_many(tx, jobs)]


async def lock(caller: Any, node: ClusterNode, id: UUID) -> None:
    await caller.execute("BEGIN")
    (answer,) = await node.bell.cancel(node.bell.join(caller), id=id)
    assert answer.answer == "cancelled"


@pytest.mark.parametrize("outcome", [None, Retry("not yet")], ids=["finish", "retry"])
async def test_an_open_cancel_of_one_job_does_not_stall_the_end_of_a_thousand(
    cluster: Cluster, owner: Owner, caller: Any, outcome: Outcome | None
) -> None:
    """Failure 8: the statement for all of them waited for the one row until the caller made up its mind."""
    crowd = Crowd("plain", outcome)
    node = await cluster.node([crowd.app], concurrency=JOBS, tenant_share=1)
    counters = node.engine.worker.counters
    ids = await crowd.enqueue(node)
    write = node.stage.hold("before", "finish_jobs" if outcome is None else "retry_jobs")
    await node.passes_until(write.reached.is_set)
    await lock(caller, node, ids[500])
    write.release()
    await node.passes_until(lambda: counters.done + counters.retried >= JOBS - 1)
    assert counters.done + counters.retried == JOBS - 1

    await caller.execute("ROLLBACK")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert counters.done + counters.retried == JOBS
    assert len(crowd.ran) == JOBS
    assert node.refused_count == 0
    assert len(await owner.jobs()) == (0 if outcome is None else JOBS)


async def test_a_job_whose_open_cancel_is_committed_stays_cancelled(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    crowd = Crowd("plain")
    node = await cluster.node([crowd.app], concurrency=JOBS, tenant_share=1)
    ids = await crowd.enqueue(node)
    write = node.stage.hold("before", "finish_jobs")
    await node.passes_until(write.reached.is_set)
    await lock(caller, node, ids[0])
    write.release()
    await node.passes_until(lambda: node.engine.worker.counters.done >= JOBS - 1)
    await caller.execute("COMMIT")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()

    assert node.refused_count == 1
    assert [row["id"] for row in await owner.log("cancelled")] == [ids[0]]
    assert await owner.jobs() == []


async def test_an_open_cancel_of_one_job_does_not_stall_the_start_of_a_thousand(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """Failure 8, for the start: the one row is left out and looked at again."""
    crowd = Crowd("external")
    node = await cluster.node([crowd.app], concurrency=JOBS, tenant_share=1)
    ids = await crowd.enqueue(node, delay=timedelta(seconds=30))
    await lock(caller, node, ids[500])
    cluster.clock.move(timedelta(seconds=30))
    await node.engine.beat()
    await node.passes_until(lambda: node.engine.worker.counters.done >= JOBS - 1)
    assert set(ids) - set(crowd.ran) == {ids[500]}

    await caller.execute("ROLLBACK")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert sorted(crowd.ran) == sorted(ids)
    assert await owner.jobs() == []


async def test_a_key_that_a_caller_holds_does_not_stall_the_others(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """Failure 8, beside the row: the job is free, and its key, which the finish releases, is not."""
    crowd = Crowd("plain")
    node = await cluster.node([crowd.app], concurrency=JOBS, tenant_share=1)
    await crowd.enqueue(node)
    async with node.bell.transaction() as tx:
        keyed = await node.bell.enqueue(tx, "t.act", key="k")
    write = node.stage.hold("before", "finish_jobs")
    await node.passes_until(write.reached.is_set)
    await caller.execute("BEGIN")
    await caller.execute("SELECT FROM timebell.job_keys WHERE key = 'k' FOR UPDATE")
    write.release()
    await node.passes_until(lambda: node.engine.worker.counters.done >= JOBS)
    assert [job["id"] for job in await owner.jobs()] == [keyed.id]

    await caller.execute("ROLLBACK")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert await owner.jobs() == []
    assert await owner.value("SELECT count(*) FROM timebell.job_keys") == 0
    assert len(crowd.ran) == JOBS + 1


async def test_what_was_put_off_is_not_finished_twice_when_the_connection_of_the_others_breaks(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """It was to be tried again later and, with the others, at once, and stood twice in one statement."""
    crowd = Crowd("plain")
    node = await cluster.node([crowd.app])
    async with node.bell.transaction() as tx:
        keyed = await node.bell.enqueue(tx, "t.act", key="k", priority=1)
        other = await node.bell.enqueue(tx, "t.act")
    write = node.stage.hold("before", "finish_jobs")
    await node.passes_until(write.reached.is_set)
    await caller.execute("BEGIN")
    await caller.execute("SELECT FROM timebell.job_keys WHERE key = 'k' FOR UPDATE")
    both = node.stage.hold("before", "lock_free_jobs")
    first = node.stage.hold("before", "lock_free_jobs")
    write.release()
    await node.passes_until(both.reached.is_set)
    both.release()
    await node.passes_until(first.reached.is_set)
    node.stage.fail("before", "lock_free_jobs", ConnectionResetError("the line is dead"))
    first.release()
    await node.passes_until(lambda: node.engine.worker.counters.done == 1)
    assert [job["id"] for job in await owner.jobs()] == [keyed.id]

    await caller.execute("ROLLBACK")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert crowd.ran == [keyed.id, other.id]
    assert sorted(row["id"] for row in await owner.log("done")) == [keyed.id, other.id]
    assert node.refused_count == 0


async def test_what_was_written_alone_is_not_written_again_when_the_connection_of_the_others_breaks(
    cluster: Cluster, owner: Owner
) -> None:
    """One of many could not be stored, so each is written by itself, and the line breaks halfway."""
    crowd = Crowd("plain", Retry("not yet"))
    node = await cluster.node([crowd.app])
    async with node.bell.transaction() as tx:
        for _ in range(2):
            await node.bell.enqueue(tx, "t.act")
    node.stage.fail("before", "retry_jobs", asyncpg.DataError("it is no text"))
    first = node.stage.hold("after", "retry_jobs")
    await node.passes_until(first.reached.is_set)
    node.stage.fail("before", "retry_jobs", ConnectionResetError("the line is dead"))
    first.release()
    await node.passes_until(lambda: node.engine.worker.counters.retried == 2)
    assert node.refused_count == 0
    assert len(await owner.log("pending")) == 2


async def test_a_finish_that_is_not_committed_yet_does_not_let_the_job_be_read_again(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """What goes around a held row is a transaction; a read before its commit still finds what it deletes."""
    crowd = Crowd("plain")
    node = await cluster.node([crowd.app], concurrency=JOBS, tenant_share=1)
    ids = await crowd.enqueue(node)
    write = node.stage.hold("before", "finish_jobs")
    await node.passes_until(write.reached.is_set)
    await lock(caller, node, ids[0])
    commit = node.stage.hold("before", "COMMIT")
    write.release()
    await node.passes_until(commit.reached.is_set)
    worker, reads = node.engine.worker, node.stage.counts["read_due"]
    worker.sweep()
    await node.passes_until(lambda: node.stage.counts["read_due"] > reads and not worker.has_work())
    commit.release()
    await node.passes_until(lambda: node.engine.worker.counters.done >= JOBS - 1)
    await caller.execute("ROLLBACK")
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert len(crowd.ran) == JOBS
    assert await owner.jobs() == []


async def test_a_dead_nodes_job_that_a_caller_holds_does_not_stall_the_recovery_of_the_others(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """The reader itself waited for the row, and with it everything that was due."""
    crowd = Crowd("external")
    first = await cluster.node([crowd.app])
    ids = await crowd.enqueue(first)
    start = first.stage.hold("after", "start_jobs")
    await first.run_until(start)
    started = await owner.value("SELECT count(*) FROM timebell.jobs WHERE started_by IS NOT NULL")
    assert started > 1
    await cluster.kill(first)
    second = await cluster.node([crowd.app])
    async with caller.transaction():
        held = "SELECT id FROM timebell.jobs WHERE started_by IS NOT NULL ORDER BY id LIMIT 1 FOR UPDATE"
        id = await caller.fetchval(held)
        await second.run_due()
        assert [job["id"] for job in await owner.jobs()] == [id]
    cluster.clock.move(timedelta(seconds=1))
    await second.run_due()
    assert sorted(crowd.ran) == sorted(ids)
