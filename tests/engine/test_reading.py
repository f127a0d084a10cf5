"""Finding what is due: from where each read begins, whom it finds, and that nothing fires early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, Owner, Stage
from timebell.clock import SystemClock
from timebell.config import Tuning
from timebell.db.pool import Database, Row, Session
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore
from timebell.engine.worker import reader
from timebell.kernel import App, Enqueue, Handler, Job, Queue
from timebell.testing.database import TestDatabase

SWEEP = timedelta(seconds=0.5)
BEHIND = timedelta(seconds=5)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Ran:
    def __init__(self) -> None:
        self.ids: list[UUID] = []
        self.app = App(name="t", handlers={"t.act": self._act})

    async def _act(self, job: Job) -> None:
        self.ids.append(job.id)


@pytest.fixture
def ran() -> Ran:
    return Ran()


@pytest.fixture
def positions(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """From which instants the reads began, every slot and lane of each."""
    begun: list[datetime] = []
    read_due = EngineStore.read_due

    async def watched(self: EngineStore, session: Session, **arguments: Any) -> Sequence[Row]:
        begun.extend(at for _, _, at, _ in arguments["positions"])
        return await read_due(self, session, **arguments)

    monkeypatch.setattr(EngineStore, "read_due", watched)
    return begun


async def test_between_two_full_sweeps_no_read_begins_far_behind(
    cluster: Cluster, ran: Ran, positions: list[datetime]
) -> None:
    """Failure 9: a sweep without a lower bound walks all the dead entries that an old snapshot keeps."""
    node = await cluster.node([ran.app], tuning=Tuning(full_sweep_seconds=60))
    await node.turn()
    positions.clear()
    for _ in range(8):
        cluster.clock.move(SWEEP)
        await node.turn()
    assert len(positions) >= 8 * 256
    assert min(positions) >= cluster.clock.now - 8 * SWEEP - timedelta(seconds=5)

    positions.clear()
    cluster.clock.move(timedelta(seconds=60))
    await node.engine.beat()
    await node.turn()
    assert min(positions) == BEGINNING


@pytest.fixture
def looks(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """When each look behind the cursor began; each takes a second, as behind the cursor of a fresh backlog."""
    begun: list[datetime] = []
    read_due = EngineStore.read_due

    async def slow(self: EngineStore, session: Session, **arguments: Any) -> Sequence[Row]:
        if BEGINNING < arguments["positions"][0][2] <= cluster.clock.now - BEHIND:
            begun.append(cluster.clock.now)
            cluster.clock.move(timedelta(seconds=1))
        return await read_due(self, session, **arguments)

    monkeypatch.setattr(EngineStore, "read_due", slow)
    return begun


async def test_a_look_behind_the_cursor_that_takes_long_is_followed_by_a_rest(
    cluster: Cluster, ran: Ran, looks: list[datetime]
) -> None:
    """A fresh backlog lies there, most of it in memory already; reading it twice a second would be all that is done."""
    node = await cluster.node([ran.app])
    await node.turn()
    looks.clear()
    for _ in range(50):
        cluster.clock.move(SWEEP)
        await node.engine.beat()
        await node.turn()
    assert len(looks) >= 4
    rests = [later - earlier - timedelta(seconds=1) for earlier, later in pairwise(looks)]
    assert timedelta(seconds=4) <= min(rests) <= max(rests) <= timedelta(seconds=4) + SWEEP


async def test_what_is_written_while_the_looks_rest_is_found_by_the_next_one(
    cluster: Cluster, caller: Any, ran: Ran, looks: list[datetime]
) -> None:
    """Also what was due five seconds before its commit, at whatever moment between two looks that was."""
    node = await cluster.node([ran.app], tuning=Tuning(full_sweep_seconds=3600))
    await node.turn()
    looks.clear()
    ids = []
    for _ in range(50):
        if len(looks) == 1:
            due_at = cluster.clock.now - BEHIND + SWEEP
            ids.append(await caller.fetchval("SELECT timebell.enqueue('t.act', p_now => $1)", due_at))
        cluster.clock.move(SWEEP)
        await node.engine.beat()
        await node.turn()
        if len(looks) == 2:
            break
    assert len(ids) > 6, "there was a rest"
    assert ran.ids == ids


async def test_what_was_passed_over_in_a_slot_that_left_meanwhile_is_not_looked_for(
    cluster: Cluster, ran: Ran
) -> None:
    node = await cluster.node([ran.app], tuning=Tuning(held_per_tenant_queue_max=1))
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", delay=SWEEP) for _ in range(20)])
    await node.turn()
    worker = node.engine.worker
    assert worker.ledger.overflow, "there is more than its share"
    read = node.stage.hold("after", "read_due")
    cluster.clock.move(SWEEP / 2)
    worker.sweep()
    await worker.tick()
    async with asyncio.timeout(20):
        await read.reached.wait()
    left = set(range(0, 256, 2))
    worker.slots_leaving(left)
    read.release()
    await asyncio.gather(*worker.background.going_on)
    marked = {slot for marks in worker.ledger.overflow.values() for slot, _ in marks}
    assert marked
    assert not marked & left


async def test_a_job_without_a_subject_has_a_slot_and_runs(cluster: Cluster, owner: Owner, ran: Ran) -> None:
    """Failure 17: a slot computed from nothing would be nothing, and nobody would read it."""
    node = await cluster.node([ran.app])
    async with node.bell.transaction() as tx:
        jobs = await node.bell.enqueue_many(tx, [Enqueue(kind="t.act") for _ in range(50)])
    slots = {job["slot"] for job in await owner.jobs()}
    assert None not in slots
    assert len(slots) > 10
    await node.turn()
    assert sorted(ran.ids) == sorted(job.id for job in jobs)


async def test_a_job_enqueued_in_sql_is_found_by_the_next_sweep(
    cluster: Cluster, caller: Any, ran: Ran
) -> None:
    """Failure 19: nothing tells the node after that commit, so the sweep is what finds it."""
    node = await cluster.node([ran.app])
    await node.turn()
    cluster.clock.move(timedelta(seconds=0.1))
    id = await caller.fetchval("SELECT timebell.enqueue('t.act', p_now => $1)", cluster.clock.now)
    await node.turn()
    assert ran.ids == []
    cluster.clock.move(SWEEP)
    await node.turn()
    assert ran.ids == [id]


async def test_a_job_that_another_process_commits_late_is_found_by_the_full_sweep(
    cluster: Cluster, caller: Any, ran: Ran
) -> None:
    """Its due instant lies further back than any other sweep looks."""
    node = await cluster.node([ran.app], tuning=Tuning(full_sweep_seconds=60))
    await node.turn()
    await caller.execute("BEGIN")
    id = await caller.fetchval("SELECT timebell.enqueue('t.act', p_now => $1)", cluster.clock.now)
    for _ in range(3):
        cluster.clock.move(timedelta(seconds=10))
        await node.engine.beat()
        await node.turn()
    await caller.execute("COMMIT")
    cluster.clock.move(SWEEP)
    await node.turn()
    assert ran.ids == []
    cluster.clock.move(timedelta(seconds=30))
    await node.engine.beat()
    await node.turn()
    assert ran.ids == [id]


async def test_nothing_fires_before_its_instant(cluster: Cluster, ran: Ran) -> None:
    node = await cluster.node([ran.app])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", delay=timedelta(seconds=1))
    cluster.clock.move(timedelta(seconds=1) - timedelta(microseconds=1))
    await node.turn()
    assert ran.ids == []
    cluster.clock.move(timedelta(microseconds=1))
    await node.turn()
    assert len(ran.ids) == 1


class Stopwatch(SystemClock):
    """The database has its own time; this process measures its own by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class SlowLine(Stage):
    """A statement, or its reply, takes ten seconds on the way."""

    def __init__(self, stopwatch: Stopwatch, moment: str) -> None:
        super().__init__()
        self._stopwatch = stopwatch
        self._moment = moment

    async def _pass(self, moment: Any, name: str) -> None:
        if (moment, name) == (self._moment, "read_clock"):
            self._stopwatch.seconds += 10


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_the_estimate_of_the_databases_time_is_never_ahead_of_it(
    database_url: TestDatabase, moment: str
) -> None:
    """Failure 18: the way there must not count at all; the way back makes the estimate late, never early."""
    stopwatch = Stopwatch()
    database = await Database.open(database_url.url, gate=SlowLine(stopwatch, moment))
    timekeeper = Timekeeper(stopwatch)
    try:
        async with database.connection() as session:
            said = await timekeeper.anchor(session)
    finally:
        await database.close()
    assert timekeeper.now() == said
    stopwatch.seconds += 3
    assert timekeeper.now() == said + timedelta(seconds=3)


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ROWS_AT_FIRST", "_ROWS_A_READ", "_PLENTY"):
        monkeypatch.setattr(reader, name, 20)


@pytest.mark.usefixtures("small_reads")
async def test_a_backlog_is_read_as_it_is_worked_off(cluster: Cluster) -> None:
    """Read as fast as it can be, it would exceed its share, and every later read would walk over what is left."""
    overflows: list[bool] = []

    async def act(_: Job) -> None:
        overflows.append(bool(node.engine.worker.ledger.overflow))

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="plain")})
    node = await cluster.node([app], concurrency=4, tuning=Tuning(held_per_tenant_queue_max=50))
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", subject="one:1") for _ in range(200)])
    await node.turn()
    assert overflows == [False] * 200


@pytest.mark.usefixtures("small_reads")
async def test_who_comes_behind_a_backlog_that_hardly_moves_is_read_a_moment_later(cluster: Cluster) -> None:
    may_end = asyncio.Event()
    begun: list[str] = []

    async def act(job: Job) -> None:
        begun.append(job.queue)
        await may_end.wait()

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="plain")}, queues=[Queue(name="other")])
    node = await cluster.node([app], concurrency=4, tenant_share=1)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", subject="one:1") for _ in range(60)])
        await node.bell.enqueue(tx, "t.act", subject="one:1", queue="other")
    worker = node.engine.worker

    def is_at_rest() -> bool:
        """Also between a read that has ended and the next, which only the next tick begins, something is wanted."""
        in_hand = worker._in_hand(worker.ledger.ready_counts())
        return not worker.background.going_on and not worker._reader.is_wanted(in_hand)

    await node.passes_until(lambda: len(begun) == 4 and is_at_rest())
    assert len(worker.ledger) < 57, "there is plenty in hand"
    for reads in range(node.stage.counts["read_due"] + 1, node.stage.counts["read_due"] + 3):
        cluster.clock.move(timedelta(seconds=0.1))
        await node.passes_until(lambda: node.stage.counts["read_due"] == reads)  # noqa: B023
        await node.passes_until(is_at_rest)
    assert len(worker.ledger) == 57
    may_end.set()
    await node.turn()
    assert begun.index("other") < 20


@pytest.mark.usefixtures("small_reads")
async def test_a_backlog_that_may_not_run_keeps_nobody_waiting(cluster: Cluster, ran: Ran) -> None:
    app = App(name="t", handlers=ran.app.handlers, queues=[Queue(name="slow", rate=0.001)])
    node = await cluster.node([app])
    async with node.bell.transaction() as tx:
        late = [Enqueue(kind="t.act", queue="slow", subject="one:1") for _ in range(60)]
        await node.bell.enqueue_many(tx, late)
        last = await node.bell.enqueue(tx, "t.act", subject="one:1")
    await node.turn()
    assert last.id in ran.ids
    assert len(ran.ids) < 10


@pytest.mark.usefixtures("small_reads")
async def test_a_tenant_at_its_share_is_read_as_it_is_worked_off(cluster: Cluster) -> None:
    """It waits for one of its own places, and those come free all the time: nothing else is to be read meanwhile."""
    may_end = asyncio.Event()
    begun: list[str] = []

    async def act(job: Job) -> None:
        begun.append(job.queue)
        await may_end.wait()

    app = App(name="t", handlers={"t.act": Handler(run=act, mode="plain")})
    node = await cluster.node([app], concurrency=8, tenant_share=0.5)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.act", subject="one:1") for _ in range(200)])
    worker = node.engine.worker
    await node.passes_until(lambda: len(begun) == 4 and not worker.background.going_on)
    reads = node.stage.counts["read_due"]
    for _ in range(5):
        await node.engine._pass(0.01)
    assert node.stage.counts["read_due"] == reads
    cluster.clock.move(timedelta(seconds=0.1))
    await node.passes_until(lambda: len(worker.ledger) == 196)
    may_end.set()
    await node.turn()
    assert len(begun) == 200


async def test_who_looks_rarely_reads_as_far_ahead(cluster: Cluster, ran: Ran) -> None:
    """Or a job that becomes due between two looks would begin late."""
    node = await cluster.node([ran.app], sweep_seconds=20)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", delay=timedelta(seconds=19))
    await node.turn()
    assert len(node.engine.worker.ledger) == 1
