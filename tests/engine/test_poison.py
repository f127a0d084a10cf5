"""A job that kills its node is found out and buried; whoever ran beside it is not."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import get_args
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Hold, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Queue
from timebell.kernel.models import Mode

MODES: tuple[Mode, ...] = get_args(Mode)
LIVES_MAX = 40


def mortal_app(fatal: Hold, ran: list[UUID]) -> App:
    """Handlers of every mode; one whose payload says so ends the node's life instead of answering."""

    async def run(job: Job) -> None:
        if job.payload.get("is_killer"):
            await fatal.stop()
        ran.append(job.id)

    return App(name="t", handlers={f"t.{mode}": Handler(run=run, mode=mode) for mode in MODES})


async def enqueue_all(node: ClusterNode, killers: list[Mode], innocents_a_mode: int) -> list[UUID]:
    """Killers spread among innocents of every mode; answers with the ids of the killers."""
    jobs = [Enqueue(kind=f"t.{mode}") for _ in range(innocents_a_mode) for mode in MODES]
    places = [(number + 1) * len(jobs) // (len(killers) + 1) + number for number in range(len(killers))]
    for place, mode in zip(places, killers, strict=True):
        jobs.insert(place, Enqueue(kind=f"t.{mode}", payload={"is_killer": True}))
    async with node.bell.transaction() as tx:
        enqueued = await node.bell.enqueue_many(tx, jobs)
    return [enqueued[place].id for place in places]


async def live_until_well(
    cluster: Cluster, killers: list[Mode], *, is_restart: bool, innocents_a_mode: int = 10
) -> tuple[int, list[UUID]]:
    """One node after another, until one survives; answers with how many died, and the killers."""
    ids: list[UUID] = []
    ran: list[UUID] = []
    for death_count in range(LIVES_MAX):
        fatal = Hold("before", "death")
        node = await cluster.node([mortal_app(fatal, ran)], node_name="one", is_alone=is_restart)
        ids = ids or await enqueue_all(node, killers, innocents_a_mode)
        if not await node.survives(fatal):
            await (cluster.kill_only(node) if is_restart else cluster.kill(node))
            continue
        return death_count, ids
    raise AssertionError(f"{LIVES_MAX} nodes died")


@pytest.mark.parametrize("is_restart", [False, True], ids=["another node takes over", "the node restarts"])
@pytest.mark.parametrize("mode", MODES)
async def test_one_killer_is_dead_after_three_crashes_alone_and_its_neighbours_are_done(
    cluster: Cluster, owner: Owner, mode: Mode, is_restart: bool
) -> None:
    """Failure 6: a crash charges all that was started; three would bury innocents, and what bears no mark is
    never counted. Once with all the others, once with few of them, and where no mark tells of it once more."""
    death_count, killers = await live_until_well(cluster, [mode], is_restart=is_restart)

    assert death_count == (5 if mode == "external" else 6)
    assert [row["id"] for row in await owner.rows("SELECT id FROM timebell.dead_jobs")] == killers
    assert await owner.jobs() == []
    assert len(await owner.log("done")) == 3 * 10


async def test_killers_of_every_mode_bury_nobody_else(cluster: Cluster, owner: Owner) -> None:
    """More plain jobs than run at once under suspicion, so that several crashes find new neighbours."""
    killers: list[Mode] = ["plain", "plain", "external", "transactional"]
    death_count, ids = await live_until_well(cluster, killers, is_restart=False, innocents_a_mode=30)

    assert death_count <= 6 * len(killers)

    dead = {row["id"] for row in await owner.rows("SELECT id FROM timebell.dead_jobs")}
    assert dead == set(ids)
    assert await owner.jobs() == []
    assert len(await owner.log("done")) == 3 * 30


@pytest.mark.parametrize(("mode", "most"), [("external", 1), ("plain", 16), ("transactional", 16)])
async def test_after_a_crash_suspects_run_one_at_a_time_and_the_merely_possible_a_few(
    cluster: Cluster, owner: Owner, mode: Mode, most: int
) -> None:
    """Failure 6: together again, they would all be charged again. Only a mark tells who had been started."""
    at_once = Counter[str]()

    async def act(job: Job) -> None:
        at_once["now"] += 1
        at_once["most"] = max(at_once["most"], at_once["now"])
        for _ in range(5):
            await asyncio.sleep(0)
        at_once["now"] -= 1

    first = await cluster.node([mortal_app(Hold("before", "death"), [])])
    async with first.bell.transaction() as tx:
        await first.bell.enqueue_many(tx, [Enqueue(kind=f"t.{mode}") for _ in range(40)])
    mark = first.stage.hold("after", "start_jobs" if mode == "external" else "read_due")
    await first.run_until(mark)
    await cluster.kill(first)
    app = App(name="t", handlers={f"t.{mode}": Handler(run=act, mode=mode)})
    second = await cluster.node([app])
    await second.run_due()

    assert await owner.jobs() == []
    assert 1 <= at_once["most"] <= most


async def test_an_orderly_stop_makes_nobody_suspect(cluster: Cluster, owner: Owner) -> None:
    ran: list[UUID] = []
    first = await cluster.node([mortal_app(Hold("before", "death"), ran)])
    async with first.bell.transaction() as tx:
        await first.bell.enqueue(tx, "t.plain")
    await first.close()
    first.is_gone = True
    second = await cluster.node([mortal_app(Hold("before", "death"), ran)])
    assert all(each.suspect_until is None for each in second.engine.node.owned.values())
    await second.run_due()
    assert second.stage.counts["start_jobs"] == 0
    assert len(ran) == 1


async def test_a_backlog_does_not_keep_suspects_from_their_turn(cluster: Cluster, owner: Owner) -> None:
    """They run one at a time, so they may go first: nobody waits long behind them."""
    ran: list[UUID] = []
    fatal = Hold("before", "death")
    first = await cluster.node([mortal_app(fatal, ran)])
    async with first.bell.transaction() as tx:
        await first.bell.enqueue_many(tx, [Enqueue(kind="t.external", payload={"is_killer": True})])
    assert not await first.survives(fatal)
    async with first.bell.transaction() as tx:
        await first.bell.enqueue_many(tx, [Enqueue(kind="t.external") for _ in range(500)])
    await cluster.kill(first)
    await owner.rows("UPDATE timebell.jobs SET payload = '{}'")
    (suspect,) = [job["id"] for job in await owner.jobs() if job["started_by"] is not None]

    second = await cluster.node([mortal_app(Hold("before", "death"), ran)], concurrency=5)
    await second.run_due()
    assert len(ran) == 501
    assert ran.index(suspect) < 100


@pytest.mark.parametrize("crash_count", [1, 2])
async def test_a_suspect_keeps_its_place_until_its_end_is_written(
    cluster: Cluster, owner: Owner, crash_count: int
) -> None:
    """Failure 6: were the next one to kill the node in between, the one that had answered would be charged too."""
    ran: list[UUID] = []
    node = await cluster.node([mortal_app(Hold("before", "death"), ran)])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.external") for _ in range(2)])
    await owner.rows("UPDATE timebell.jobs SET crash_count = $1", crash_count)
    ending = node.stage.hold("before", "finish_jobs")
    await node.run_until(ending)
    passes = iter(range(15))
    await node.passes_until(lambda: len(ran) > 1 or next(passes, None) is None)
    assert len(ran) == 1
    await node.go_on(ending)
    assert len(ran) == len(await owner.log("done")) == 2


async def test_a_suspect_whose_start_is_still_being_marked_has_not_run(
    cluster: Cluster, owner: Owner
) -> None:
    """However long the mark takes: it has done no harm because it could not."""
    ran: list[UUID] = []
    node = await cluster.node([mortal_app(Hold("before", "death"), ran)])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.external") for _ in range(2)])
    await owner.rows("UPDATE timebell.jobs SET crash_count = 1")
    mark = node.stage.hold("before", "start_jobs")
    await node.run_until(mark)
    cluster.clock.move(timedelta(seconds=1))
    passes = iter(range(15))
    await node.passes_until(lambda: next(passes, None) is None)
    assert node.stage.counts["start_jobs"] == 1
    assert ran == []
    await node.go_on(mark)
    assert len(ran) == 2


async def test_a_suspect_that_takes_long_holds_up_the_next_for_a_moment_only(
    cluster: Cluster, owner: Owner
) -> None:
    began: list[UUID] = []
    forever = asyncio.Event()

    async def take_long(job: Job) -> None:
        began.append(job.id)
        await forever.wait()

    node = await cluster.node([App(name="t", handlers={"t.long": Handler(run=take_long, mode="external")})])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.long") for _ in range(2)])
    await owner.rows("UPDATE timebell.jobs SET crash_count = 1")
    passes = iter(range(15))
    await node.passes_until(lambda: next(passes, None) is None)
    assert len(began) == 1
    cluster.clock.move(timedelta(milliseconds=100))
    await node.passes_until(lambda: len(began) == 2)
    forever.set()


async def test_a_job_that_must_be_alone_comes_to_its_turn_in_a_queue_with_a_rate(
    cluster: Cluster, owner: Owner
) -> None:
    """It may ask to be alone only when its queue lets it start, and in most rounds that is not so."""
    ran: list[UUID] = []
    forever = asyncio.Event()

    async def send(job: Job) -> None:
        ran.append(job.id)

    async def take_long(job: Job) -> None:
        await forever.wait()

    app = App(
        name="t",
        handlers={
            "t.send": Handler(run=send, mode="external", queue="mail"),
            "t.long": Handler(run=take_long, timeout=timedelta(hours=5)),
        },
        queues=[Queue(name="mail", rate=10.0)],
    )
    node = await cluster.node([app])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.long")
    await node.passes_until(lambda: len(node.engine.worker.attempts) == 1)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.send", delay=timedelta(seconds=1))
    await owner.rows("UPDATE timebell.jobs SET crash_count = 2 WHERE kind = 't.send'")
    worker = node.engine.worker
    began = cluster.clock.now
    for _ in range(2 * 60):
        cluster.clock.move(timedelta(milliseconds=500))
        await node.engine.beat()
        await worker.look_around()
        for _ in range(3):
            await worker.tick()
            await asyncio.gather(*worker.background.going_on)
        if ran:
            break
    forever.set()
    assert timedelta(seconds=30) <= cluster.clock.now - began <= timedelta(seconds=45)
