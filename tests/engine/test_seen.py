"""What a node has seen: a quick retry is a new thing to see, a finished job never comes back from an older read."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner, Stage
from timebell.kernel import App, Handler, Job, Outcome, Snooze
from timebell.kernel.models import Mode
from timebell.rules.backoff import RetryPolicy


async def enqueue(node: ClusterNode) -> UUID:
    async with node.bell.transaction() as tx:
        return (await node.bell.enqueue(tx, "t.act")).id


@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_retry_within_the_read_ahead_is_seen_again(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """Failure 11: seen by its id alone, the job would be hidden from the reads that bring its retry."""
    attempts: list[int] = []

    async def flaky(job: Job) -> None:
        attempts.append(job.attempt)
        if job.attempt < 4:
            raise ValueError("not yet")

    quick = RetryPolicy.of_delays([0.1], max_attempts=5)
    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=flaky, mode=mode, retry=quick)})])
    await enqueue(node)
    await node.turn()
    for _ in range(3):
        cluster.clock.move(timedelta(seconds=0.2))
        await node.turn()
    assert attempts == [1, 2, 3, 4]
    assert await owner.jobs() == []


@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_a_job_that_is_held_and_moved_forward_runs_at_its_new_instant(
    cluster: Cluster, mode: Mode
) -> None:
    """Failure 11: seen by its id alone, the new version would wait behind the old one's instant."""
    ran: list[datetime] = []

    async def act(job: Job) -> None:
        ran.append(cluster.clock.now)

    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=act, mode=mode)})])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", delay=timedelta(seconds=0.8), key="k")
    await node.turn()
    assert node.engine.worker.ledger.earliest_run_at() == cluster.clock.now + timedelta(seconds=0.8)
    due_at = cluster.clock.now + timedelta(seconds=0.3)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", due_at=due_at, key="k", on_conflict="replace")
    for _ in range(20):
        cluster.clock.move(timedelta(seconds=0.1))
        await node.turn()
    assert ran == [due_at]


@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_job_that_is_snoozed_for_no_time_runs_again_at_once(cluster: Cluster, mode: Mode) -> None:
    rounds: list[int] = []

    async def go_round(job: Job) -> Outcome | None:
        rounds.append(len(rounds))
        return Snooze(delay=timedelta(0), cursor={"round": len(rounds)}) if len(rounds) < 5 else None

    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=go_round, mode=mode)})])
    await enqueue(node)
    await node.turn()
    assert rounds == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_read_that_began_before_the_finish_does_not_bring_the_job_back(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """Failure 11: the read has found the row, its answer is slow, and the finish is heard of first."""
    ran: list[UUID] = []
    stage = Stage()

    async def act(job: Job) -> None:
        ran.append(job.id)
        await stage.before("the end")

    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=act, mode=mode)})])
    end = stage.hold("before", "the end")
    id = await enqueue(node)
    if mode == "external":
        # Once it is marked the row itself tells; the older read is one that began before the mark.
        end.release()
        start = node.stage.hold("before", "start_jobs")
        await node.passes_until(start.reached.is_set)
    else:
        await node.passes_until(end.reached.is_set)
    read = node.stage.hold("after", "read_due")
    (job,) = await owner.jobs()
    node.bell.wakeups.hint([(job["slot"], job["run_at"] - timedelta(microseconds=1))])
    await node.passes_until(read.reached.is_set)
    end.release()
    if mode == "external":
        start.release()
    counters = node.engine.worker.counters
    await node.passes_until(lambda: counters.done == 1)
    read.release()
    await node.turn()
    await node.run_due()

    assert ran == [id]
    assert counters.not_begun == 0
    assert await owner.jobs() == []


async def test_what_was_seen_is_forgotten_once_no_older_read_is_open(cluster: Cluster, owner: Owner) -> None:
    """A memory that only grows would be the node's end."""

    async def act(job: Job) -> None:
        return None

    node = await cluster.node([App(name="t", handlers={"t.act": act})])
    for _ in range(3):
        await enqueue(node)
        await node.run_due()
    ledger = node.engine.worker.ledger
    assert (len(ledger), ledger._entries, ledger._retired) == (0, {}, [])
