"""The row is the arbiter of every finish: what was moved, taken over or begun anew by another is not finished."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner, Stage
from tests.engine.writes import Write, end, finish, retry, start
from timebell.engine.store import EngineStore
from timebell.kernel import App, Enqueue, Handler, Job
from timebell.kernel.models import Mode

Ran = list[UUID]


def app_of(mode: Mode, ran: Ran, stage: Stage | None = None) -> App:
    async def run(job: Job) -> None:
        if stage is not None:
            await stage.before("the effect")
        ran.append(job.id)

    return App(name="t", handlers={"t.act": Handler(run=run, mode=mode)})


async def enqueue(node: ClusterNode, **options: Any) -> UUID:
    async with node.bell.transaction() as tx:
        return (await node.bell.enqueue(tx, "t.act", **options)).id


async def test_a_job_that_was_moved_while_it_ran_is_kept(cluster: Cluster, owner: Owner) -> None:
    """Failure 1: a finish by id alone deletes the job that now stands for tomorrow."""
    ran: Ran = []
    node = await cluster.node([app_of("plain", ran)])
    id = await enqueue(node, key="report")
    finish = node.stage.hold("before", "finish_jobs")
    await node.run_until(finish)

    tomorrow = cluster.clock.now + timedelta(days=1)
    async with node.bell.transaction() as tx:
        moved = await node.bell.enqueue(tx, "t.act", due_at=tomorrow, key="report", on_conflict="replace")
    assert moved.id == id
    await node.go_on(finish)

    (job,) = await owner.jobs()
    assert (job["id"], job["run_at"]) == (id, tomorrow)
    assert node.refused_count == 1
    cluster.clock.move_to(tomorrow)
    await node.run_due()
    assert ran == [id, id]
    assert await owner.jobs() == []


@pytest.mark.parametrize("write", [finish, end, retry, start])
async def test_a_write_that_waited_for_the_new_owner_leaves_its_retry_alone(
    cluster: Cluster,
    owner: Owner,
    caller: Any,
    write: Write,
) -> None:
    """Failure 2: the statement took its snapshot while it still owned the slot, and the recheck after a wait for
    the row looks at the row alone."""
    node = await cluster.node([app_of("plain", [])])
    id = await enqueue(node, delay=timedelta(hours=1))
    cluster.clock.move(timedelta(hours=1))
    slot = await owner.value("SELECT slot FROM timebell.jobs WHERE id = $1", id)
    fence: dict[str, object] = {
        "slots": [slot],
        "epochs": [node.engine.node.owned[slot].epoch],
        "incarnation": node.incarnation,
        "lock_timeout": "10s",
    }
    await caller.execute("BEGIN")
    await caller.execute("UPDATE timebell.slots SET owner = -1, epoch = epoch + 1 WHERE slot = $1", slot)
    await caller.execute(
        "UPDATE timebell.jobs SET version = 2, attempt = 1, run_at = run_at + interval '1 minute' WHERE id = $1",
        id,
    )
    async with node.bell.database.connection() as session:
        stale = asyncio.ensure_future(write(EngineStore(cluster.clock), session, id, fence))
        await owner.until_someone_waits()
        await caller.execute("COMMIT")
        assert not await stale

    (job,) = await owner.jobs()
    assert (job["version"], job["started_by"]) == (2, None)
    assert await owner.log() == []


async def test_one_lost_slot_refuses_its_own_rows_and_no_others(cluster: Cluster, owner: Owner) -> None:
    """Failure 3: a fence for the batch as a whole finishes nothing, and everything runs again."""
    ran: Ran = []
    node = await cluster.node([app_of("plain", ran)])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", subject=f"s:{n}") for n in range(64)])
    slots = {job["id"]: job["slot"] for job in await owner.jobs()}
    lost = min(slots.values())
    finish = node.stage.hold("before", "finish_jobs")
    await node.run_until(finish)
    await owner.rows("UPDATE timebell.slots SET owner = -1, epoch = epoch + 1 WHERE slot = $1", lost)
    await node.go_on(finish)

    assert {job["slot"] for job in await owner.jobs()} == {lost}
    of_lost = {id for id, slot in slots.items() if slot == lost}
    assert {row["id"] for row in await owner.log("done")} == slots.keys() - of_lost
    # The node does not know yet that the slot is not its own and may have read those rows again: each run is refused.
    assert node.refused_count == sum(id in of_lost for id in ran) >= len(of_lost)
    assert sorted(id for id in ran if id not in of_lost) == sorted(slots.keys() - of_lost)


@pytest.mark.req("U-2")
async def test_a_paused_worker_cannot_finish_an_external_job_that_another_has_begun(
    cluster: Cluster, owner: Owner
) -> None:
    """The recovery by the new owner bumps the version, and the version guards the finish."""
    ran: Ran = []
    second_stage = Stage()
    paused = await cluster.node([app_of("external", ran)])
    id = await enqueue(paused)
    finish = paused.stage.hold("before", "finish_jobs")
    await paused.run_until(finish)
    await owner.expire_lease(paused.incarnation)
    effect = second_stage.hold("before", "the effect")
    other = await cluster.node([app_of("external", ran, second_stage)])
    await other.run_until(effect)

    await paused.go_on(finish)
    (job,) = await owner.jobs()
    assert job["started_by"] == other.incarnation
    assert paused.refused_count == 1
    assert await owner.log("done") == []

    await other.go_on(effect)
    (end,) = await owner.log("done")
    assert (end["id"], end["node"], ran) == (id, other.incarnation, [id, id])


@pytest.mark.req("U-2")
async def test_a_paused_worker_cannot_finish_a_plain_job_whose_slot_another_has_taken(
    cluster: Cluster, owner: Owner
) -> None:
    """Nothing in the row tells of the new owner's run; the epoch of the slot does."""
    ran: Ran = []
    second_stage = Stage()
    paused = await cluster.node([app_of("plain", ran)])
    id = await enqueue(paused)
    finish = paused.stage.hold("before", "finish_jobs")
    await paused.run_until(finish)
    await owner.rows("UPDATE timebell.slots SET owner = NULL")
    await owner.rows("DELETE FROM timebell.nodes")
    effect = second_stage.hold("before", "the effect")
    other = await cluster.node([app_of("plain", ran, second_stage)])
    await other.run_until(effect)
    (job,) = await owner.jobs()
    assert (job["version"], job["started_by"]) == (1, None)

    await paused.go_on(finish)
    assert [job["id"] for job in await owner.jobs()] == [id]
    assert paused.refused_count == 1

    await other.go_on(effect)
    (end,) = await owner.log("done")
    assert (end["node"], ran) == (other.incarnation, [id, id])


@pytest.mark.req("U-2")
async def test_a_paused_worker_that_lost_its_lease_starts_nothing_more(
    cluster: Cluster, owner: Owner
) -> None:
    ran: Ran = []
    second_stage = Stage()
    paused = await cluster.node([app_of("external", ran)])
    await enqueue(paused)
    start = paused.stage.hold("before", "start_jobs")
    await paused.run_until(start)
    await owner.expire_lease(paused.incarnation)
    other = await cluster.node([app_of("external", ran, second_stage)])
    effect = second_stage.hold("before", "the effect")
    await other.run_until(effect)
    await paused.go_on(start)
    assert ran == []
    await other.go_on(effect)
    assert len(ran) == 1
