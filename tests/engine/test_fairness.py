"""Nobody's backlog delays another tenant, and nothing is lost where little is held in memory."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Owner
from timebell.clock import SystemClock
from timebell.config import Settings, Tuning
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.kernel import App, Done, Enqueue, Handler, Job, Outcome, Queue, Registry, Timebell
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
PASSES_MAX = 100_000


class Order:
    """A handler that notes in which order jobs began."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def app(self, mode: Any = "plain", **options: Any) -> App:
        async def run(job: Job) -> None:
            self.jobs.append(job)

        queues = [Queue(name=name) for name in ("mail", "sms")]
        return App(name="t", handlers={"t.run": Handler(run=run, mode=mode, **options)}, queues=queues)

    def tenants(self) -> list[str]:
        return [job.tenant for job in self.jobs]


async def enqueue(h: Harness, tenant: str, number: int, **options: Any) -> None:
    async with h.bell.transaction(tenant=tenant) as tx:
        jobs = [Enqueue(kind="t.run", payload={"number": each}, **options) for each in range(number)]
        await h.bell.enqueue_many(tx, jobs)


async def flood(owner: Owner, h: Harness, tenant: str, number: int) -> None:
    """Many jobs due within one second, written by the owner at once."""
    await owner.connection.execute(
        "INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload) "
        "SELECT timebell.new_id(), $1, 'default', 't.run', at, at, '{}' FROM ("
        "SELECT $2::timestamptz + n * interval '1 second' / $3 AS at FROM generate_series(1, $3) AS n) s",
        tenant,
        h.clock.now,
        number,
    )


@pytest.mark.req("U-15")
async def test_another_tenants_job_is_among_the_first_however_long_the_backlog(
    database_url: TestDatabase, owner: Owner
) -> None:
    """All are due in the same second and the quiet one last of all; it is begun within the first pass or two."""
    order, backlog = Order(), 20_000
    async with harness(database_url.url, [order.app()]) as h:
        await flood(owner, h, "loud", backlog)
        async with h.bell.transaction(tenant="quiet") as tx:
            await h.bell.enqueue(tx, "t.run", delay=SECOND)
        h.clock.move(2 * SECOND)
        await begin_until(h, order, "quiet")
        before = len(order.jobs)
        await h.run_due()
    assert before <= 4_000 + 2 * h.bell.settings.concurrency, f"{before} jobs began before it"
    assert Counter(order.tenants()) == {"loud": backlog, "quiet": 1}


async def begin_until(h: Harness, order: Order, tenant: str) -> None:
    """Let the worker go on until a job of the tenant has begun."""
    await h.engine.beat()
    for _ in range(100_000):
        if order.jobs and tenant in order.tenants()[-1_000:]:
            return
        await h.engine._pass(1.0)
    raise AssertionError("it never began")


@pytest.mark.slow
@pytest.mark.req("U-15")
async def test_a_hundred_thousand_jobs_do_not_delay_another_tenant_by_two_seconds(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The quiet tenant's jobs are due while the loud one's hundred thousand are. What is in front of them is counted,
    since on a busy machine everything takes longer, the quiet one's jobs and the loud one's alike."""
    loud: list[float] = []
    quiet: list[tuple[float, float]] = []
    done = asyncio.Event()

    async def run(job: Job) -> Outcome:
        if job.tenant == "quiet":
            quiet.append((job.due_at.timestamp(), time.time()))
            if len(quiet) == 20:
                done.set()
        else:
            loud.append(time.time())
        return Done()

    database = await Database.open(database_url.url)
    bell = Timebell(
        database,
        registry=Registry([App(name="t", handlers={"t.run": run})]),
        settings=Settings(),
        clock=SystemClock(),
    )
    engine = Engine(bell)
    async with engine.running():
        await owner.connection.execute(
            "INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload) "
            "SELECT timebell.new_id(), 'loud', 'default', 't.run', at, at, '{}' FROM ("
            "SELECT now() + interval '12 seconds' + n * interval '10 microseconds' AS at "
            "FROM generate_series(1, 100000) AS n) s"
        )
        async with bell.transaction(tenant="quiet") as tx:
            due = await tx.connection.fetchval("SELECT min(due_at) FROM timebell.jobs WHERE tenant = 'loud'")
            for number in range(20):
                await bell.enqueue(tx, "t.run", due_at=due + number * SECOND / 10)
        committed = time.time()
        async with asyncio.timeout(300):
            await done.wait()
    await bell.close()
    await database.close()
    assert min(began - due for due, began in quiet) >= 0
    in_front = [sum(max(due, committed) <= at < began for at in loud) for due, began in quiet]
    assert max(in_front) < 4_000, "more than a slow machine begins in two seconds"


@pytest.mark.req("U-15")
async def test_tenants_and_queues_take_turns(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=8) as h:
        for tenant in ("a", "b", "c"):
            for queue in ("mail", "sms"):
                await enqueue(h, tenant, 100, queue=queue)
        await h.run_due()
    pairs = [(job.tenant, job.queue) for job in order.jobs]
    for end in range(60, 600, 60):
        counts = Counter(pairs[:end])
        assert max(counts.values()) - min(counts.values()) <= 8, "more than one turn apart"


async def test_priority_decides_within_one_tenants_queue_and_not_between_tenants(
    database_url: TestDatabase,
) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=10) as h:
        await enqueue(h, "a", 20, priority=-5)
        await enqueue(h, "a", 20, priority=90)
        await enqueue(h, "b", 20, priority=-100)
        await h.run_due()
    assert order.tenants().index("b") < 20, "another tenant's priority is nobody's business"
    assert len(order.jobs) == 60


async def test_high_priority_begins_first(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=4) as h:
        async with h.bell.transaction() as tx:
            for number in range(60):
                priority = number * 7 % 20
                await h.bell.enqueue(tx, "t.run", {"priority": priority}, priority=priority)
        await h.run_due()
    begun = [job.payload["priority"] for job in order.jobs]
    assert begun == sorted(begun, reverse=True)


async def test_critical_jobs_begin_before_all_others(database_url: TestDatabase) -> None:
    """In all places but the few that are kept for other tenants."""
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=16) as h:
        await enqueue(h, "a", 200, priority=100)
        await enqueue(h, "b", 30, urgency="critical", priority=-100)
        await h.run_due()
    assert set(order.tenants()[:14]) == {"b"}
    assert order.tenants()[:36].count("b") == 30
    assert len(order.jobs) == 230


@pytest.mark.req("U-15")
@pytest.mark.parametrize("mode", ["plain", "transactional", "external"])
@pytest.mark.parametrize(("total", "pair"), [(1, 1), (40, 10), (40, 40)])
async def test_nothing_is_lost_where_little_is_held_in_memory(
    database_url: TestDatabase, owner: Owner, mode: Any, total: int, pair: int
) -> None:
    order = Order()
    async with harness(
        database_url.url,
        [order.app(mode)],
        tuning=Tuning(held_jobs_max=total, held_per_tenant_queue_max=pair),
    ) as h:
        for tenant in ("a", "b", "c"):
            await enqueue(h, tenant, 100, due_at=h.clock.now + SECOND)
            await enqueue(h, tenant, 50, queue="mail", delay=timedelta(milliseconds=500))
        await h.advance(MINUTE)
    assert len(order.jobs) == len({job.id for job in order.jobs}) == 450
    assert await owner.jobs() == []


async def test_one_subject_with_many_jobs_is_read_through(database_url: TestDatabase) -> None:
    """All of one subject lie in one slot, far more than one read brings and one tenant may have in memory."""
    order = Order()
    async with harness(database_url.url, [order.app()], tuning=Tuning(held_per_tenant_queue_max=100)) as h:
        await enqueue(h, "a", 3_000, subject="ledger:1")
        await enqueue(h, "b", 10)
        await h.run_due()
    assert Counter(order.tenants()) == {"a": 3_000, "b": 10}
    assert order.tenants().index("b") < 1_000


def instants(jobs: Sequence[Job]) -> list[Any]:
    return [job.due_at for job in jobs]


async def test_an_overflow_comes_back_in_due_order(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(
        database_url.url, [order.app()], tuning=Tuning(held_per_tenant_queue_max=20), concurrency=1, batch=1
    ) as h:
        async with h.bell.transaction() as tx:
            for number in range(200):
                await h.bell.enqueue(tx, "t.run", subject="one:1", due_at=h.clock.now + number * SECOND)
        h.clock.move(10 * MINUTE)
        await h.run_due()
    assert instants(order.jobs) == sorted(instants(order.jobs))
    assert len(order.jobs) == 200


async def test_a_backlog_is_not_read_through_for_every_handful_of_it(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read grows with the backlog, and not with its square."""
    ran, rows_read = 0, 0

    async def run(job: Job) -> None:
        nonlocal ran
        for _ in range(PASSES_MAX):
            if not h.engine.worker._reader.is_wanted():
                break
            await asyncio.sleep(0)
        ran += 1

    app = App(name="t", handlers={"t.run": run})
    async with harness(database_url.url, [app], tuning=Tuning(held_per_tenant_queue_max=1_000)) as h:
        read_due = h.engine.store.read_due

        async def counted(*arguments: Any, **named: Any) -> Sequence[Any]:
            nonlocal rows_read
            rows = await read_due(*arguments, **named)
            rows_read += len(rows)
            return rows

        monkeypatch.setattr(h.engine.store, "read_due", counted)
        for _ in range(10):
            await enqueue(h, "a", 1_000)
        await h.run_due()
    assert ran == 10_000
    assert rows_read < 3 * 10_000


async def test_jobs_that_no_handler_here_knows_do_not_keep_the_others_out(
    database_url: TestDatabase, owner: Owner
) -> None:
    """As in the middle of an upgrade, or after an app was taken out."""
    order = Order()
    async with harness(database_url.url, [order.app()], tuning=Tuning(held_per_tenant_queue_max=50)) as h:
        await enqueue(h, "a", 100)
        await owner.connection.execute("UPDATE timebell.jobs SET kind = 't.elsewhere'")
        h.clock.move(SECOND)
        await enqueue(h, "a", 10)
        await h.run_due()
    assert len(order.jobs) == 10
    assert {job["kind"] for job in await owner.jobs()} == {"t.elsewhere"}
