"""A paused queue starts nothing, keeps everything, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, Owner
from tests.log_lines import kept_lines
from timebell.kernel import App, Enqueue, Handler, Job, Queue, Timebell
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MODES = ("plain", "transactional", "external")


class Order:
    """A handler that notes in which order jobs began."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def app(self, mode: Any = "plain", *, name: str = "t", kind: str = "t.run", **limits: Any) -> App:
        async def run(job: Job) -> None:
            self.jobs.append(job)

        queues = [Queue(name="mail", **limits), Queue(name="sms")]
        return App(name=name, handlers={kind: Handler(run=run, mode=mode)}, queues=queues)

    def counts(self) -> Counter[tuple[str, str]]:
        return Counter((job.tenant, job.queue) for job in self.jobs)


async def pause(bell: Timebell, queue: str = "mail", *, tenant: str = "a", everyone: bool = False) -> None:
    async with bell.transaction(tenant=tenant) as tx:
        await bell.pause(tx, queue, everyone=everyone, reason="the provider asked us to")


async def resume(bell: Timebell, queue: str = "mail", *, tenant: str = "a", everyone: bool = False) -> None:
    async with bell.transaction(tenant=tenant) as tx:
        assert await bell.resume(tx, queue, everyone=everyone)


async def enqueue(
    bell: Timebell,
    number: int,
    *,
    tenant: str = "a",
    queue: str = "mail",
    kind: str = "t.run",
    **options: Any,
) -> None:
    async with bell.transaction(tenant=tenant) as tx:
        jobs = [
            Enqueue(kind=kind, payload={"number": each}, queue=queue, **options) for each in range(number)
        ]
        await bell.enqueue_many(tx, jobs)


async def fill(h: Harness) -> None:
    for tenant in ("a", "b"):
        for queue in ("mail", "sms"):
            await enqueue(h.bell, 30, tenant=tenant, queue=queue)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tenants_paused_queue_rests_and_all_others_go_on(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    order = Order()
    async with harness(database_url.url, [order.app(mode)]) as h:
        await pause(h.bell)
        await fill(h)
        await h.advance(5 * SECOND)
        assert order.counts() == {("a", "sms"): 30, ("b", "mail"): 30, ("b", "sms"): 30}
        jobs = await owner.jobs()
        assert {(row["tenant"], row["queue"], row["lane"], row["attempt"]) for row in jobs} == {
            ("a", "mail", 2, 0)
        }
        await resume(h.bell)
        await h.advance(5 * SECOND)
    assert order.counts()["a", "mail"] == 30
    assert await owner.jobs() == []


async def test_a_queue_paused_for_everyone_rests_for_everyone(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell, everyone=True)
        await fill(h)
        await h.advance(5 * SECOND)
        assert order.counts() == {("a", "sms"): 30, ("b", "sms"): 30}
        await resume(h.bell, everyone=True)
        await h.advance(5 * SECOND)
    assert order.counts()["a", "mail"] == order.counts()["b", "mail"] == 30


async def test_a_pause_of_one_tenant_outlasts_the_resume_for_everyone(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell)
        await pause(h.bell, everyone=True)
        await fill(h)
        await h.advance(5 * SECOND)
        await resume(h.bell, everyone=True)
        await h.advance(5 * SECOND)
        assert order.counts()["a", "mail"] == 0
        assert order.counts()["b", "mail"] == 30


@pytest.mark.parametrize("mode", MODES)
async def test_what_was_parked_comes_back_in_due_order_and_critical_first(
    database_url: TestDatabase, mode: Any
) -> None:
    order = Order()
    async with harness(database_url.url, [order.app(mode)], concurrency=1, batch=1) as h:
        await pause(h.bell)
        async with h.bell.transaction(tenant="a") as tx:
            for number in (3, 1, 2, 0):
                for urgency in ("normal", "critical"):
                    due_at = h.clock.now + number * SECOND
                    await h.bell.enqueue(
                        tx, "t.run", {"u": urgency}, queue="mail", due_at=due_at, urgency=urgency
                    )
        await h.advance(10 * SECOND)
        await resume(h.bell)
        start = h.clock.now - 10 * SECOND
        await h.advance(SECOND)
    assert [(job.payload["u"], (job.due_at - start).total_seconds()) for job in order.jobs] == [
        (urgency, float(number)) for urgency in ("critical", "normal") for number in range(4)
    ]


async def test_more_than_one_batch_comes_back(database_url: TestDatabase, owner: Owner) -> None:
    """Bounded batches, a few at each look-around, until all are back."""
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell)
        await enqueue(h.bell, 6_000)
        await h.run_due()
        assert await owner.value("SELECT count(*) FROM timebell.jobs WHERE lane = 2") == 6_000
        await resume(h.bell)
        await h.engine.worker.look_around()
        assert 0 < await owner.value("SELECT count(*) FROM timebell.jobs WHERE lane = 2") < 6_000
        for _ in range(2):
            await h.run_due()
    assert order.counts() == {("a", "mail"): 6_000}


async def test_what_expired_while_it_was_parked_does_not_run(
    database_url: TestDatabase, owner: Owner
) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell)
        await enqueue(h.bell, 5, expires_at=h.clock.now + 60 * SECOND)
        await enqueue(h.bell, 5)
        await h.advance(120 * SECOND)
        await resume(h.bell)
        await h.advance(SECOND)
    assert len(order.jobs) == 5
    assert Counter(row["state"] for row in await owner.log()) == {"expired": 5, "done": 5}


async def test_what_is_parked_can_be_cancelled(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell)
        await enqueue(h.bell, 3, subject="booking:1")
        await h.advance(SECOND)
        async with h.bell.transaction(tenant="a") as tx:
            answers = await h.bell.cancel(tx, subject="booking:1")
        assert [answer.answer for answer in answers] == ["cancelled"] * 3
        await resume(h.bell)
        await h.advance(SECOND)
    assert order.jobs == []


async def test_parking_takes_no_place_from_jobs_that_run(database_url: TestDatabase) -> None:
    """Transactional jobs have a few places; a paused queue full of them must not use those up."""
    order = Order()
    async with harness(database_url.url, [order.app("transactional")], pool_size=6) as h:
        await pause(h.bell)
        await enqueue(h.bell, 50)
        await h.advance(SECOND)
        await enqueue(h.bell, 50, queue="sms")
        await h.advance(SECOND)
    assert order.counts() == {("a", "sms"): 50}


async def test_what_is_retried_into_a_paused_queue_is_parked(
    database_url: TestDatabase, owner: Owner
) -> None:
    ran: list[int] = []

    async def run(job: Job) -> None:
        ran.append(job.attempt)
        if job.attempt == 1:
            raise ConnectionError("no answer")

    app = App(name="t", handlers={"t.run": Handler(run=run, queue="mail")}, queues=[Queue(name="mail")])
    async with harness(database_url.url, [app]) as h:
        await enqueue(h.bell, 1)
        await h.run_due()
        await pause(h.bell)
        await h.advance(600 * SECOND)
        assert ran == [1]
        assert [row["lane"] for row in await owner.jobs()] == [2]
        await resume(h.bell)
        await h.advance(SECOND)
    assert ran == [1, 2]


@pytest.mark.parametrize("is_reply_lost", [False, True])
async def test_what_is_being_parked_while_the_queue_is_resumed_is_not_forgotten(
    cluster: Cluster, owner: Owner, is_reply_lost: bool
) -> None:
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10)
    hold = node.stage.hold("before", "park_jobs")
    if is_reply_lost:
        node.stage.fail("after", "park_jobs", ConnectionResetError("the line is dead"))
    await node.run_until(hold)
    await resume(node.bell)
    await node.engine.worker.look_around()
    await node.go_on(hold)
    for _ in range(2):
        cluster.clock.move(SECOND)
        await node.run_due()
    assert order.counts() == {("a", "mail"): 10}
    assert await owner.jobs() == []


async def test_what_is_parked_while_others_are_brought_back_is_not_forgotten(
    cluster: Cluster, owner: Owner
) -> None:
    """Those that bring back have looked before it was there, and their answer comes after it."""
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10)
    parking = node.stage.hold("before", "park_jobs")
    await node.run_until(parking)
    await resume(node.bell)
    bringing_back = node.stage.hold("after", "unpark_jobs")
    looking = asyncio.create_task(node.engine.worker.look_around())
    async with asyncio.timeout(20):
        await bringing_back.reached.wait()
    await node.go_on(parking)
    bringing_back.release()
    await looking
    for _ in range(2):
        cluster.clock.move(SECOND)
        await node.run_due()
    assert order.counts() == {("a", "mail"): 10}
    assert await owner.jobs() == []


async def test_what_could_not_be_brought_back_is_brought_back_later(cluster: Cluster) -> None:
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10)
    await node.run_due()
    await resume(node.bell)
    node.stage.fail("before", "unpark_jobs", ConnectionResetError("the line is dead"))
    with pytest.raises(ConnectionResetError):
        await node.engine.worker.look_around()
    await node.run_due()
    assert order.counts() == {("a", "mail"): 10}


async def test_slots_that_move_while_parking_waits_for_a_connection_are_left_alone(
    cluster: Cluster, owner: Owner
) -> None:
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10, delay=SECOND / 2)
    await node.run_due()
    with kept_lines() as lines:
        async with AsyncExitStack() as taken:
            for _ in range(node.bell.database._pool.get_max_size()):
                await taken.enter_async_context(node.bell.database.connection())
            cluster.clock.move(SECOND)
            await node.engine.worker.tick()
            assert not node.engine.worker.background.is_free("park")
            await owner.expire_lease(node.incarnation)
            other = await cluster.node([order.app()])
            await node.engine.beat()
            assert not node.engine.node.owned
        await node.turn()
    assert node.stage.counts["park_jobs"] == 1
    assert [line["event"] for line in lines if line["log_level"] == "error"] == []
    await resume(other.bell)
    for each in (other, node) * 2:
        cluster.clock.move(SECOND)
        await each.run_due()
    assert order.counts() == {("a", "mail"): 10}


async def test_every_node_hears_of_a_pause_and_of_its_end(cluster: Cluster, owner: Owner) -> None:
    """What one node parked comes back on whichever reads the slot then, also after a takeover."""
    order = Order()
    first, second = await cluster.node([order.app()]), await cluster.node([order.app()])
    for _ in range(2):
        for node in (first, second):
            await node.engine.beat()
    await pause(first.bell)
    await enqueue(first.bell, 60)
    for node in (first, second):
        await node.run_due()
    assert await owner.value("SELECT count(*) FROM timebell.jobs WHERE lane = 2") == 60
    await cluster.kill(first)
    await second.run_due()
    assert order.jobs == []
    await resume(second.bell)
    for _ in range(3):
        cluster.clock.move(SECOND)
        await second.run_due()
    assert order.counts() == {("a", "mail"): 60}


async def test_what_runs_when_its_queue_is_paused_is_left_to_run(
    database_url: TestDatabase, owner: Owner
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def run(job: Job) -> None:
        began.set()
        await goes_on.wait()

    app = App(
        name="t",
        handlers={"t.run": Handler(run=run, queue="mail", mode="external")},
        queues=[Queue(name="mail")],
    )
    async with harness(database_url.url, [app]) as h:
        await enqueue(h.bell, 1)
        running = asyncio.create_task(h.run_due())
        async with asyncio.timeout(10):
            await began.wait()
        await pause(h.bell)
        goes_on.set()
        await running
    assert [row["state"] for row in await owner.log()] == ["done"]


async def test_what_could_not_be_parked_is_not_forgotten(cluster: Cluster, owner: Owner) -> None:
    """It had been chosen already; were it still known, no read would ever bring it back."""
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10)
    node.stage.fail("before", "park_jobs", ConnectionResetError("the line is dead"))
    await node.run_due()
    await resume(node.bell)
    cluster.clock.move(SECOND)
    await node.run_due()
    assert order.counts() == {("a", "mail"): 10}
    assert await owner.jobs() == []


async def test_a_job_that_a_caller_holds_is_parked_and_brought_back_later_than_the_others(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    order = Order()
    node = await cluster.node([order.app()])
    await pause(node.bell)
    await enqueue(node.bell, 10)
    parked = "SELECT count(*) FROM timebell.jobs WHERE lane = 2"
    async with caller.transaction():
        await caller.execute("SELECT FROM timebell.jobs ORDER BY id LIMIT 1 FOR UPDATE")
        await node.run_due()
        assert await owner.value(parked) == 9
    cluster.clock.move(SECOND)
    await node.run_due()
    assert await owner.value(parked) == 10
    await resume(node.bell)
    async with caller.transaction():
        await caller.execute("SELECT FROM timebell.jobs ORDER BY id LIMIT 1 FOR UPDATE")
        cluster.clock.move(SECOND)
        await node.run_due()
        assert order.counts() == {("a", "mail"): 9}
    cluster.clock.move(SECOND)
    await node.run_due()
    assert order.counts() == {("a", "mail"): 10}
