"""Permits outlive their node: nobody has one while what another began under it may still be running."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Queue
from timebell.testing import ManualClock

LEASE = timedelta(seconds=30)
GRACE = timedelta(seconds=3)
MOMENT = timedelta(milliseconds=100)
LIMIT = 4


class LeaseClock(ManualClock):
    """Moves the leases too: whoever is not let do anything meanwhile stood still for as long."""

    def lease_now(self) -> datetime | None:
        return self.now


class Works:
    """Handlers that go on step by step, each when the test says so; which steps were taken where is written down."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.most_running = 0
        self.turns: dict[str, list[asyncio.Future[None]]] = {}
        self.ended: Counter[str] = Counter()
        self.is_over = False
        self.is_stubborn = False

    def app(self, name: str, mode: Any = "external", **options: Any) -> App:
        self.turns[name] = []

        async def run(job: Job) -> None:
            self.begun[name] += 1
            self.running[name] += 1
            self.most_running = max(self.most_running, self.running.total())
            try:
                while not self.is_over:
                    await self._turn(name)
                    self.steps[name] += 1
            except asyncio.CancelledError:
                self.ended["interrupted"] += 1
                raise
            finally:
                self.running[name] -= 1

        handler = Handler(run=run, mode=mode, queue="q", **options)
        return App(name="t", handlers={"t.run": handler}, queues=[Queue(name="q", concurrency=LIMIT)])

    async def _turn(self, name: str) -> None:
        while True:
            turn = asyncio.get_running_loop().create_future()
            self.turns[name].append(turn)
            try:
                await turn
                return
            except asyncio.CancelledError:
                if not self.is_stubborn:
                    raise

    async def step(self, name: str, count: int = LIMIT) -> None:
        """Let so many handlers of a node go on to where they wait next."""
        turns, self.turns[name] = self.turns[name][:count], self.turns[name][count:]
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def end(self) -> None:
        self.is_over, self.is_stubborn = True, False
        for name in self.turns:
            await self.step(name, 1_000)


@pytest.fixture
def moved(cluster: Cluster) -> Cluster:
    cluster.clock = LeaseClock()
    return cluster


@asynccontextmanager
async def works() -> AsyncIterator[Works]:
    made = Works()
    try:
        yield made
    finally:
        await made.end()


async def enqueue(node: ClusterNode, count: int) -> None:
    async with node.bell.transaction() as tx:
        await node.bell.enqueue_many(tx, [Enqueue(kind="t.run") for _ in range(count)])


async def live(cluster: Cluster, by: timedelta, *nodes: ClusterNode, step: timedelta = MOMENT) -> None:
    """Time passes; these nodes do what they do, and all others stand still."""
    until = cluster.clock.now + by
    while cluster.clock.now < until:
        cluster.clock.move(min(step, until - cluster.clock.now))
        for node in nodes:
            await node.engine.beat()
        for node in nodes:
            await some_passes(node)


async def some_passes(node: ClusterNode, count: int = 8) -> None:
    for _ in range(count):
        await node.engine.worker.tick()
        going_on = node.engine.worker.background.going_on
        if going_on:
            await asyncio.wait(going_on, timeout=1.0)
        await asyncio.sleep(0)


async def read_all(node: ClusterNode) -> None:
    node.engine.worker.sweep()
    await some_passes(node)


async def held(owner: Owner) -> dict[int, int]:
    rows = await owner.rows("SELECT incarnation, held FROM timebell.permits WHERE held > 0")
    return {row["incarnation"]: row["held"] for row in rows}


async def two_nodes(cluster: Cluster, works: Works, **options: Any) -> tuple[ClusterNode, ClusterNode]:
    """The first has all permits and runs as much as it may; the second has work as well."""
    first = await cluster.node([works.app("a", **options)])
    await enqueue(first, 40)
    await first.passes_until(lambda: works.begun["a"] == LIMIT)
    second = await cluster.node([works.app("b", **options)])
    await live(cluster, 4 * MOMENT, first, second)
    await read_all(second)
    assert works.begun == {"a": LIMIT}
    return first, second


@pytest.mark.req("U-8")
async def test_the_permits_of_a_dead_node_come_back_when_nothing_can_run_under_them(
    moved: Cluster, owner: Owner
) -> None:
    async with works() as work:
        doomed, survivor = await two_nodes(moved, work)
        await moved.kill_only(doomed)
        life = doomed.incarnation
        await live(moved, LEASE + GRACE - 3 * MOMENT, survivor, step=timedelta(seconds=1))
        assert survivor.engine.node.alive == {survivor.incarnation}, "the dead one is buried"
        await read_all(survivor)
        assert (work.begun["b"], await held(owner)) == (0, {life: LIMIT})
        await live(moved, 6 * MOMENT, survivor)
        await read_all(survivor)
        assert (work.begun["b"], await held(owner)) == (LIMIT, {survivor.incarnation: LIMIT})


@pytest.mark.req("U-8")
async def test_what_two_dead_nodes_held_is_free_for_whoever_comes_long_afterwards(
    moved: Cluster, owner: Owner
) -> None:
    """Nobody was there to bury them."""
    async with works() as work:
        first, second = await two_nodes(moved, work)
        await work.step("a", 2)
        await moved.kill_only(first)
        await moved.kill_only(second)
        moved.clock.move(timedelta(minutes=10))
        third = await moved.node([work.app("c")])
        await some_passes(third)
        await read_all(third)
        assert work.begun["c"] == LIMIT
        await third.engine.beat()
        assert await owner.value("SELECT count(DISTINCT incarnation) FROM timebell.permits") == 1


@pytest.mark.req("U-8")
@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_node_that_stood_still_takes_no_further_step_under_a_permit_that_others_have(
    moved: Cluster, mode: Any
) -> None:
    async with works() as work:
        frozen, other = await two_nodes(moved, work, mode=mode)
        await live(moved, LEASE + GRACE + MOMENT, other, step=timedelta(seconds=1))
        await read_all(other)
        await other.passes_until(lambda: work.begun["b"] == LIMIT)
        # It wakes: what two of its handlers waited for is there, and two wait for something that never comes.
        await work.step("a", 2)
        assert (work.steps["a"], work.running["a"]) == (0, 2)
        await frozen.engine.worker.tick()
        await asyncio.sleep(0)
        assert (work.steps["a"], work.running["a"]) == (0, 0)
        await work.end()
        await live(moved, timedelta(seconds=4), frozen, other)
        assert work.ended["interrupted"] == LIMIT
        assert await drained(moved, frozen, other)


@pytest.mark.req("U-8")
async def test_a_node_that_wakes_takes_nothing_to_its_next_life_that_others_run_by_now(
    moved: Cluster,
) -> None:
    """Its first act is to begin that life, before it has looked at what runs."""
    async with works() as work:
        frozen, other = await two_nodes(moved, work)
        await live(moved, LEASE + GRACE + MOMENT, other, step=timedelta(seconds=1))
        await read_all(other)
        await other.passes_until(lambda: work.begun["b"] == LIMIT)
        await frozen.engine.beat()
        await work.step("a")
        assert (work.steps["a"], work.running["a"]) == (0, 0)
        await work.end()
        assert await drained(moved, frozen, other)


async def drained(cluster: Cluster, *nodes: ClusterNode) -> bool:
    for _ in range(100):
        await live(cluster, MOMENT, *nodes)
        if not await cluster.owner.jobs():
            return True
    return False


@pytest.mark.req("U-8")
async def test_what_is_interrupted_so_is_given_back_and_says_why(moved: Cluster, owner: Owner) -> None:
    async with works() as work:
        node = await moved.node([work.app("a")])
        await enqueue(node, LIMIT)
        await node.passes_until(lambda: work.begun["a"] == LIMIT)
        moved.clock.move(LEASE + timedelta(seconds=1.1))
        await node.engine.worker.tick()
        await asyncio.sleep(0)
        assert work.ended["interrupted"] == LIMIT
        work.is_over = True
        assert await drained(moved, node)
    log = await owner.log("pending")
    assert {row["reason"] for row in log} == {
        "interrupted: its node lost its lease, and with it the permit to run it"
    }
    assert {row["attempt"] for row in await owner.log("done")} == {1}, "the attempt was counted"


@pytest.mark.req("U-8")
async def test_without_a_permit_it_goes_on(moved: Cluster, owner: Owner) -> None:
    """A node that lost its lease ends nothing that nobody limits."""
    async with works() as work:
        app = work.app("a", mode="plain")
        unlimited = App(name="t", handlers=app.handlers, queues=[Queue(name="q")])
        node = await moved.node([unlimited])
        await enqueue(node, 8)
        await node.passes_until(lambda: work.begun["a"] == 8)
        moved.clock.move(timedelta(minutes=2))
        await node.engine.worker.tick()
        await work.step("a", 8)
        assert (work.steps["a"], work.ended["interrupted"]) == (8, 0)
        work.is_over = True
        await work.step("a", 8)
        assert await drained(moved, node)
    assert work.begun["a"] == 8


@pytest.mark.req("U-8")
async def test_a_process_takes_the_permits_of_what_it_still_runs_to_its_next_life(
    moved: Cluster, owner: Owner
) -> None:
    """It comes back before its permits are given to others: nothing is interrupted, and nothing counts twice."""
    async with works() as work:
        first, other = await two_nodes(moved, work, mode="plain")
        old_life = first.incarnation
        await live(moved, LEASE - MOMENT, other, step=timedelta(seconds=1))
        moved.clock.move(timedelta(seconds=0.9))
        work.is_over = True
        await work.step("a", 1)
        work.is_over = False
        assert first.engine.worker.permits_in_use() == {"q": LIMIT - 1}
        await other.engine.beat()
        assert other.engine.node.alive == {other.incarnation}
        assert await held(owner) == {old_life: LIMIT}
        await first.engine.beat()
        assert await held(owner) == {first.incarnation: LIMIT - 1}
        assert first.incarnation != old_life
        await live(moved, 4 * MOMENT, first, other)
        await read_all(other)
        assert work.running == {"a": LIMIT - 1, "b": 1}
        await work.step("a")
        assert (work.steps["a"], work.ended["interrupted"]) == (LIMIT, 0)
    assert work.most_running == LIMIT


@pytest.mark.req("U-8")
@pytest.mark.parametrize("is_buried", [False, True])
async def test_a_life_that_ends_while_it_asks_for_permits_has_none_afterwards(
    moved: Cluster, owner: Owner, is_buried: bool
) -> None:
    async with works() as work:
        first = await moved.node([work.app("a")])
        other = await moved.node([work.app("b")]) if is_buried else None
        await enqueue(first, 40)
        writing = first.stage.hold("before", "write_permits")
        await first.passes_until(writing.reached.is_set)
        if other is not None:
            moved.clock.move(LEASE / 2)
            await other.engine.beat()
            moved.clock.move(LEASE / 2 + MOMENT)
            await other.engine.beat()
        else:
            moved.clock.move(LEASE + MOMENT)
        await first.engine.beat()
        writing.release()
        await some_passes(first)
        nodes = [first] if other is None else [first, other]
        await live(moved, timedelta(seconds=5), *nodes)
        for node in nodes:
            await read_all(node)
        assert work.running.total() == work.most_running == LIMIT
        lives = {node.incarnation for node in nodes}
        rows = await owner.rows("SELECT incarnation, held FROM timebell.permits")
        assert {row["incarnation"] for row in rows} <= lives, "a permit of nobody"
        assert sum(row["held"] for row in rows) == LIMIT


@pytest.mark.req("U-8")
async def test_a_permit_is_in_use_until_its_thread_has_ended(moved: Cluster, owner: Owner) -> None:
    """The time is over and the job is tried again later; the function goes on all the same."""
    free = threading.Event()
    begun: list[int] = []

    def run(job: Job) -> None:
        begun.append(job.payload["number"])
        assert free.wait(20)

    handler = Handler(run=run, queue="q", timeout=timedelta(seconds=1))
    app = App(name="t", handlers={"t.run": handler}, queues=[Queue(name="q", concurrency=1)])
    node = await moved.node([app], retry_delays_seconds=(0.1,))
    try:
        async with node.bell.transaction() as tx:
            jobs = [Enqueue(kind="t.run", payload={"number": number}) for number in range(3)]
            await node.bell.enqueue_many(tx, jobs)
        await node.passes_until(lambda: bool(begun))
        await live(moved, timedelta(seconds=5), node)
        await read_all(node)
        assert not node.engine.worker.attempts.running, "the attempt timed out"
        assert (len(begun), await held(owner)) == (1, {node.incarnation: 1})
        # Another life of the process knows of the thread as well.
        await owner.expire_lease(node.incarnation)
        await node.engine.beat()
        assert await held(owner) == {node.incarnation: 1}
        free.set()
        await node.passes_until(lambda: not node.engine.worker.permits_in_use())
        await live(moved, timedelta(seconds=1), node)
        assert len(begun) > 1
    finally:
        free.set()


@pytest.mark.req("U-8")
async def test_whoever_leaves_keeps_the_permits_of_what_goes_on_for_a_while(
    moved: Cluster, owner: Owner
) -> None:
    free = threading.Event()
    begun = threading.Event()

    def run(job: Job) -> None:
        begun.set()
        assert free.wait(20)

    async def end(job: Job) -> None:
        pass

    queues = [Queue(name="q", concurrency=2), Queue(name="r", concurrency=2)]
    handlers = {"t.run": Handler(run=run, queue="q"), "t.end": Handler(run=end, queue="r")}
    app = App(name="t", handlers=handlers, queues=queues)
    node = await moved.node([app], stop_seconds=0)
    life = node.incarnation
    try:
        async with node.bell.transaction() as tx:
            await node.bell.enqueue_many(tx, [Enqueue(kind="t.run"), Enqueue(kind="t.end")])
        await node.passes_until(begun.is_set)
        await some_passes(node)
        await node.engine.stop()
        assert await owner.rows("SELECT queue, incarnation, held FROM timebell.permits") == [
            {"queue": "q", "incarnation": life, "held": 1}
        ]
    finally:
        free.set()
    moved.clock.move(GRACE)
    await moved.node([app])
    assert await held(owner) == {}


@pytest.mark.req("U-8")
async def test_a_handler_that_does_not_listen_keeps_its_permit(moved: Cluster, owner: Owner) -> None:
    async with works() as work:
        work.is_stubborn = True
        node = await moved.node([work.app("a", timeout=timedelta(seconds=1))])
        await enqueue(node, 10)
        await node.passes_until(lambda: work.begun["a"] == LIMIT)
        await live(moved, timedelta(seconds=10), node)
        assert (work.begun["a"], await held(owner)) == (LIMIT, {node.incarnation: LIMIT})
        await work.end()
        assert await drained(moved, node)


@pytest.mark.req("U-8")
@pytest.mark.parametrize("seconds", [31.0, 34.0])
async def test_whenever_it_wakes_no_more_than_the_limit_go_on(moved: Cluster, seconds: float) -> None:
    """Three nodes stand still in turn, for as long as a lease or a little longer; each handler goes on when it can."""
    async with works() as work:
        nodes = [await moved.node([work.app(name)]) for name in "abc"]
        await live(moved, 3 * MOMENT, *nodes)
        await enqueue(nodes[0], 60)
        await live(moved, timedelta(seconds=1), *nodes)
        for turn in range(3):
            frozen = nodes[turn % 3]
            others = [node for node in nodes if node is not frozen]
            await live(moved, timedelta(seconds=seconds), *others, step=timedelta(seconds=5))
            before = work.steps.copy()
            for name in work.turns:
                await work.step(name, 100)
            assert sum((work.steps - before).values()) <= LIMIT
            await live(moved, timedelta(seconds=1), *nodes)
            assert work.running.total() <= LIMIT
        await work.end()
        assert await drained(moved, *nodes)


@pytest.mark.req("U-8")
async def test_what_runs_when_its_queue_is_limited_counts_at_once(moved: Cluster, owner: Owner) -> None:
    async with works() as work:
        app = work.app("a")
        unlimited = App(name="t", handlers=app.handlers, queues=[Queue(name="q")])
        first = await moved.node([unlimited])
        await enqueue(first, 3)
        await first.passes_until(lambda: work.begun["a"] == 3)
        second = await moved.node([work.app("b")])
        await enqueue(second, 40)
        moved.clock.move(timedelta(seconds=6))
        await first.engine.worker.look_around()
        await live(moved, timedelta(seconds=1), first, second)
        assert await held(owner) == {first.incarnation: 3, second.incarnation: LIMIT - 3}
        await read_all(first)
        await read_all(second)
        await live(moved, timedelta(seconds=1), first, second)
        assert work.running == {"a": 3, "b": LIMIT - 3}
        work.is_over = True
        await work.step("a", 2)
        work.is_over = False
        await live(moved, timedelta(seconds=1), first, second)
        assert work.running.total() == LIMIT
