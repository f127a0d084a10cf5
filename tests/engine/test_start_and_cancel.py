"""A cancel tells the truth, whichever way its race with the start ends, and what was read ahead starts only in time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner, Stage
from timebell.config import Tuning
from timebell.kernel import (
    App,
    Cancelled,
    Handler,
    Job,
    Outcome,
    Queue,
    Retry,
    Snooze,
    Timebell,
)
from timebell.kernel.models import Mode

HOUR = timedelta(hours=1)
MARKS: dict[Mode, str] = {"external": "start_jobs", "transactional": "lock_job"}


class Bench:
    """A node whose handler can be held before its effect, and a caller with a bell of its own."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.ran: list[tuple[UUID, bool]] = []
        self.stage = Stage()
        self.app = App(name="t", handlers={"t.act": Handler(run=self._run, mode=mode)})

    async def _run(self, job: Job) -> None:
        await self.stage.before("the effect")
        await job.heartbeat()
        self.ran.append((job.id, job.is_cancel_requested))

    async def enqueue(self, node: ClusterNode, **options: Any) -> UUID:
        async with node.bell.transaction() as tx:
            return (await node.bell.enqueue(tx, "t.act", **options)).id


async def cancel(bell: Timebell, id: UUID) -> Cancelled:
    async with bell.transaction() as tx:
        (answer,) = await bell.cancel(tx, id=id)
    return answer


@pytest.fixture(params=["external", "transactional"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


@pytest.mark.req("U-3")
async def test_a_cancel_that_comes_before_the_start_is_kept(
    cluster: Cluster, owner: Owner, bench: Bench
) -> None:
    """Failure 4: the node has chosen the job and is about to start it."""
    node = await cluster.node([bench.app])
    id = await bench.enqueue(node)
    start = node.stage.hold("before", MARKS[bench.mode])
    await node.run_until(start)

    assert (await cancel(node.bell, id)).answer == "cancelled"
    await node.go_on(start)
    cluster.clock.move(HOUR)
    await node.run_due()

    assert bench.ran == []
    (end,) = await owner.log()
    assert end["state"] == "cancelled"


@pytest.mark.req("U-3")
async def test_a_bare_function_keeps_the_promise_of_cancel(cluster: Cluster, owner: Owner) -> None:
    """Whoever has read nothing about modes has the one in which `cancelled` means that it does not start."""
    ran: list[UUID] = []

    async def act(job: Job) -> None:
        ran.append(job.id)

    node = await cluster.node([App(name="t", handlers={"t.act": act})])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.act", delay=timedelta(seconds=1))).id
    await node.turn()
    assert len(node.engine.worker.ledger) == 1, (
        "it is read already, and nobody tells the node of what comes now"
    )
    assert (await cancel(node.bell, id)).answer == "cancelled"
    cluster.clock.move(timedelta(seconds=1))
    await node.turn()
    assert ran == []


@pytest.mark.req("U-1")
async def test_a_bare_function_is_run_again_after_a_crash(cluster: Cluster, owner: Owner) -> None:
    stage, ran = Stage(), list[UUID]()

    async def act(job: Job) -> None:
        await stage.before("the effect")
        ran.append(job.id)

    app = App(name="t", handlers={"t.act": act})
    node = await cluster.node([app])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.act")).id
    await node.run_until(stage.hold("before", "the effect"))
    await cluster.kill(node)
    other = await cluster.node([app])
    await other.run_due()
    assert ran == [id]
    assert [row["state"] for row in await owner.log()] == ["pending", "done"]


@pytest.mark.req("U-3")
async def test_a_cancel_that_comes_after_the_start_says_too_late(cluster: Cluster, owner: Owner) -> None:
    """Failure 4: the mark is written, and nothing of the job is seen outside yet."""
    bench = Bench("external")
    node = await cluster.node([bench.app])
    id = await bench.enqueue(node)
    start = node.stage.hold("after", "start_jobs")
    await node.run_until(start)

    assert (await cancel(node.bell, id)).answer == "too_late"
    await node.go_on(start)

    assert bench.ran == [(id, True)]
    (end,) = await owner.log()
    assert end["state"] == "done"


@pytest.mark.req("U-3")
async def test_a_cancel_during_a_transactional_handler_says_too_late_and_does_not_undo_it(
    cluster: Cluster, owner: Owner
) -> None:
    bench = Bench("transactional")
    node = await cluster.node([bench.app], cancel_wait_seconds=0.05)
    id = await bench.enqueue(node)
    effect = bench.stage.hold("before", "the effect")
    await node.run_until(effect)

    assert (await cancel(node.bell, id)).answer == "too_late"
    await node.go_on(effect)
    (end,) = await owner.log()
    assert (len(bench.ran), end["state"]) == (1, "done")


@pytest.mark.req("U-3")
@pytest.mark.parametrize("ending", ["fails", "snoozes", "is killed"])
async def test_a_transactional_handler_that_was_too_late_to_cancel_is_not_tried_again(
    cluster: Cluster, owner: Owner, ending: str
) -> None:
    """Its transaction holds the row, so the flag cannot be written there; what was asked is kept all the same."""
    stage, ran, told = Stage(), list[int](), list[bool]()

    async def act(job: Job) -> Outcome:
        ran.append(job.attempt)
        await stage.before("the effect")
        told.append(await job.heartbeat())
        return Retry("no luck") if ending == "fails" else Snooze()

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="transactional")})
    node = await cluster.node([app])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.act")).id
    effect = stage.hold("before", "the effect")
    await node.run_until(effect)
    other = await cluster.node([app], cancel_wait_seconds=0.05)
    answer = await cancel(other.bell, id)
    assert (answer.answer, answer.state) == ("too_late", "running")

    if ending == "is killed":
        await cluster.kill(node)
    else:
        await node.go_on(effect)
        assert told == [False]
    for _ in range(3):
        cluster.clock.move(HOUR)
        for each in [other] if node.is_gone else [node, other]:
            await each.run_due()
    assert ran == [1]
    assert await owner.jobs() == []
    (end,) = await owner.log()
    assert end["state"] == "cancelled"
    assert await owner.value("SELECT count(*) FROM timebell.cancel_requests") == 0


@pytest.mark.req("U-3")
@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
async def test_a_cancel_of_a_pending_job_that_another_holds_is_undecided_and_then_done(
    cluster: Cluster, owner: Owner, caller: Any, bench: Bench, ending: str
) -> None:
    """Nobody runs it, so it is not said that somebody does; and it does not begin once the row is free."""
    node = await cluster.node([bench.app], cancel_wait_seconds=0.05)
    id = await bench.enqueue(node, delay=HOUR)
    await caller.execute("BEGIN")
    await caller.fetch("SELECT FROM timebell.jobs FOR UPDATE")
    answer = await cancel(node.bell, id)
    assert (answer.answer, answer.state) == ("undecided", None)

    cluster.clock.move(HOUR)
    await node.run_due()
    await caller.execute(ending)
    assert (await cancel(node.bell, id)).answer == "cancelled"
    await node.run_due()
    assert bench.ran == []


@pytest.mark.req("U-3")
async def test_what_was_asked_holds_from_the_start_on(cluster: Cluster, owner: Owner, bench: Bench) -> None:
    """The node has read the job and goes to start it before anybody has carried out what was asked."""
    node = await cluster.node([bench.app])
    id = await bench.enqueue(node)
    start = node.stage.hold("before", MARKS[bench.mode])
    await node.run_until(start)
    await owner.rows(
        "INSERT INTO timebell.cancel_requests (job_id, tenant, requested_at) VALUES ($1, 'default', now())",
        id,
    )
    await node.go_on(start)
    for _ in range(2):
        cluster.clock.move(HOUR)
        await node.run_due()
    assert bench.ran == []
    (end,) = await owner.log()
    assert (end["id"], end["state"]) == (id, "cancelled")


@pytest.mark.req("U-3")
@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
async def test_a_cancel_that_is_not_committed_yet_decides_when_it_ends(
    cluster: Cluster, owner: Owner, caller: Any, bench: Bench, ending: str
) -> None:
    """The start waits for nobody for long: it leaves the row alone and looks again."""
    node = await cluster.node([bench.app])
    id = await bench.enqueue(node)
    await caller.execute("BEGIN")
    tx = node.bell.join(caller)
    (answer,) = await node.bell.cancel(tx, id=id)
    assert answer.answer == "cancelled"
    await node.run_due()
    assert bench.ran == []

    await caller.execute(ending)
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert [ran for ran, _ in bench.ran] == ([id] if ending == "ROLLBACK" else [])
    assert await owner.jobs() == []


@pytest.mark.req("U-3")
async def test_a_cancel_and_a_start_at_once_agree(cluster: Cluster, owner: Owner) -> None:
    """Many races without a referee: every job either ran or was cancelled, and the answer says which."""
    bench = Bench("external")
    node = await cluster.node([bench.app])
    ids = [await bench.enqueue(node, delay=HOUR) for _ in range(40)]
    cluster.clock.move(HOUR)
    running = asyncio.create_task(node.run_due())
    answers = [await cancel(node.bell, id) for id in ids]
    await running

    ran = {id for id, _ in bench.ran}
    assert {each.id for each in answers if each.answer == "cancelled"} == set(ids) - ran
    assert {each.id for each in answers if each.answer in ("too_late", "already_final")} == ran
    assert await owner.jobs() == []


async def test_a_job_that_was_read_ahead_and_then_moved_does_not_start_early(
    cluster: Cluster, owner: Owner, bench: Bench
) -> None:
    """Failure 4: the node holds the job at its old time, and nobody told it of the new one."""
    node = await cluster.node([bench.app])
    elsewhere = await cluster.node([bench.app])
    half_a_second = timedelta(seconds=0.5)
    id = await bench.enqueue(elsewhere, delay=half_a_second, key="k", subject="read ahead")
    for each in (node, elsewhere):
        await each.turn()
    assert node.engine.worker.ledger.earliest_run_at() or elsewhere.engine.worker.ledger.earliest_run_at()

    due_at = cluster.clock.now + HOUR
    await owner.rows(
        "UPDATE timebell.jobs SET run_at = $2, due_at = $2, version = version + 1 WHERE id = $1", id, due_at
    )
    cluster.clock.move(half_a_second)
    for each in (node, elsewhere):
        await each.turn()
    assert bench.ran == []
    cluster.clock.move_to(due_at)
    for each in (node, elsewhere):
        await each.run_due()
    assert [ran for ran, _ in bench.ran] == [id]


async def test_a_plain_job_that_waited_in_memory_does_not_run_long_after_its_cancel(
    cluster: Cluster, owner: Owner
) -> None:
    """The instant in which it may still run is that of its reading, not the hours that a slow queue takes."""
    bench = Bench("plain")
    app = App(name="t", handlers=bench.app.handlers, queues=[Queue(name="slow", rate=0.1)])
    node = await cluster.node([app])
    ids = [await bench.enqueue(node, queue="slow") for _ in range(3)]
    await node.run_due()
    assert [id for id, _ in bench.ran] == ids[:1]
    cluster.clock.move(timedelta(seconds=5))
    assert (await cancel(node.bell, ids[1])).answer == "cancelled"
    for _ in range(4):
        cluster.clock.move(timedelta(seconds=10))
        await node.run_due()
    assert [id for id, _ in bench.ran] == [ids[0], ids[2]]
    assert await owner.jobs() == []


async def test_a_plain_job_that_was_read_long_ahead_does_not_run_after_its_cancel(
    cluster: Cluster, owner: Owner
) -> None:
    """However far ahead a node was told to read, the row is asked again where the reading lies further back."""
    bench = Bench("plain")
    node = await cluster.node([bench.app], tuning=Tuning(read_ahead_seconds=20))
    ids = [await bench.enqueue(node, delay=timedelta(seconds=10)) for _ in range(2)]
    await node.turn()
    assert len(node.engine.worker.ledger) == 2
    assert (await cancel(node.bell, ids[0])).answer == "cancelled"
    cluster.clock.move(timedelta(seconds=10))
    await node.engine.beat()
    await node.turn()
    assert [id for id, _ in bench.ran] == ids[1:]
    assert await owner.jobs() == []
