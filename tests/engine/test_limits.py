"""Limits that hold over all nodes together, while they work, wait, die and take over from each other."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.starts_oracle import SECOND_US, lease_starts
from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.clock import Chance
from timebell.config import QueueSettings
from timebell.db.pool import Database
from timebell.engine.limits.pace import STRETCH
from timebell.engine.store import EngineStore
from timebell.kernel import App, Enqueue, Handler, Job, Queue, Registry, Timebell
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=20)


class Starts:
    """A handler that notes at which instant and on which node each job began, and how many run at once."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.at: list[datetime] = []
        self.begun: Counter[int] = Counter()
        self.running = 0
        self.most_running = 0
        self.until: asyncio.Event | None = None

    async def run(self, job: Job) -> None:
        self.at.append(self._clock.now)
        self.begun[job.payload.get("number", 0)] += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.until is None:
                await asyncio.sleep(0)
            else:
                await self.until.wait()
        finally:
            self.running -= 1

    def app(self, queue: Queue, mode: Any = "plain") -> App:
        return App(
            name="t", handlers={"t.run": Handler(run=self.run, mode=mode, queue=queue.name)}, queues=[queue]
        )


def busiest_second(instants: Sequence[datetime]) -> int:
    """The most starts in any half-open second; those that begin at a start are enough to look at."""
    ordered = sorted(instants)
    return max(bisect_left(ordered, at + SECOND) - rank for rank, at in enumerate(ordered))


async def three_nodes(cluster: Cluster, app: App, **options: Any) -> list[ClusterNode]:
    nodes = [await cluster.node([app], **options) for _ in range(3)]
    await settle(nodes)
    return nodes


async def settle(nodes: Sequence[ClusterNode]) -> None:
    """Beat until the slots are divided evenly."""
    for _ in range(3):
        for node in nodes:
            await node.engine.beat()
    assert sum(len(node.engine.node.owned) for node in nodes) == 256


async def enqueue(node: ClusterNode, number: int, **options: Any) -> None:
    async with node.bell.transaction() as tx:
        jobs = [Enqueue(kind="t.run", payload={"number": each}, **options) for each in range(number)]
        await node.bell.enqueue_many(tx, jobs)


async def pass_time(
    cluster: Cluster, nodes: Sequence[ClusterNode], by: timedelta, step: timedelta = STEP
) -> None:
    """Move the clock in small steps and let every node do at each instant what it would do there."""
    until = cluster.clock.now + by
    sweep = 0
    while cluster.clock.now < until:
        cluster.clock.move(step)
        sweep += 1
        if sweep % 50 == 0:
            for node in nodes:
                await node.engine.beat()
                await node.engine.worker.look_around()
        await asyncio.gather(*(node.turn() for node in nodes))


@pytest.mark.req("U-8", "J-0.1", "J-0.2", "J-1.3")
@pytest.mark.parametrize("burst", [1, 10])
async def test_a_rate_holds_over_three_nodes_and_is_reached(cluster: Cluster, burst: int) -> None:
    """Six hundred due at once at fifty a second: some thirteen seconds, and no second with more than its share."""
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", rate=50, burst=burst)))
    await enqueue(nodes[0], 600)
    begin = cluster.clock.now
    await pass_time(cluster, nodes, 14 * SECOND)
    assert len(starts.at) == len(starts.begun) == 600
    assert busiest_second(starts.at) <= 50 + burst - 1
    assert 11 * SECOND <= max(starts.at) - begin <= 13.2 * SECOND
    assert min(node.engine.worker.counters.done for node in nodes) > 20, "a node went without"


@pytest.mark.req("U-8")
async def test_a_rate_holds_while_a_node_dies_and_its_slots_move(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    app = starts.app(Queue(name="q", rate=50, burst=5), mode="external")
    nodes = await three_nodes(cluster, app)
    await enqueue(nodes[0], 400)
    await pass_time(cluster, nodes, 2 * SECOND)
    await cluster.kill(nodes[1])
    left = [nodes[0], nodes[2]]
    await settle(left)
    await pass_time(cluster, left, 10 * SECOND)
    assert sorted(starts.begun) == list(range(400)), "lost with the node"
    assert busiest_second(starts.at) <= 50 + 4
    assert len(starts.at) >= 400


@pytest.mark.slow
@pytest.mark.req("U-8", "J-0.2")
async def test_three_thousand_jobs_take_a_minute_at_fifty_a_second(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", rate=50)))
    await enqueue(nodes[0], 3_000)
    begin = cluster.clock.now
    await pass_time(cluster, nodes, 66 * SECOND)
    assert len(starts.begun) == 3_000
    assert busiest_second(starts.at) <= 50
    assert 59 * SECOND <= max(starts.at) - begin <= 65 * SECOND


@pytest.mark.req("U-8")
async def test_a_rate_below_one_a_second_gives_every_node_its_turn(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", rate=0.5)))
    await enqueue(nodes[0], 60)
    begin = cluster.clock.now
    await pass_time(cluster, nodes, 30 * SECOND, timedelta(milliseconds=100))
    assert 14 <= len(starts.at) <= 16
    gaps = [later - earlier for earlier, later in zip(starts.at, starts.at[1:], strict=False)]
    assert all(gap >= 2 * SECOND - timedelta(milliseconds=200) for gap in gaps)
    assert starts.at[0] - begin <= SECOND
    assert min(node.engine.worker.counters.done for node in nodes) >= 2, "a node went without"


async def test_a_limited_queue_does_not_hold_up_another(cluster: Cluster) -> None:
    ran: list[str] = []

    async def run(job: Job) -> None:
        ran.append(job.queue)

    queues = [Queue(name="slow", rate=1), Queue(name="narrow", concurrency=1), Queue(name="free")]
    node = await cluster.node([App(name="t", handlers={"t.run": run}, queues=queues)])
    for queue in ("slow", "narrow", "free"):
        await enqueue(node, 50, queue=queue)
    await node.run_due()
    assert Counter(ran) == {"slow": 1, "narrow": 50, "free": 50}


@pytest.mark.req("U-8")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_statement_leases_what_the_rule_says(database_url: TestDatabase, data: st.DataObject) -> None:
    """The same questions to PostgreSQL and to the readable rule, whatever the rate and whoever asked before."""
    rate = data.draw(st.one_of(st.floats(0.001, 100_000), st.integers(1, 1_000).map(float)))
    burst = data.draw(st.integers(1, 100))
    asks = data.draw(
        st.lists(
            st.tuples(st.integers(0, 5 * SECOND_US), st.integers(0, 10_000), st.integers(0, SECOND_US)),
            min_size=1,
            max_size=12,
        )
    )
    asyncio.run(_compare(database_url.url, rate, burst, asks))


async def _compare(url: str, rate: float, burst: int, asks: Sequence[tuple[int, int, int]]) -> None:
    clock = ManualClock()
    database = await Database.open(url, size=2)
    try:
        app = App(name="t", queues=[Queue(name="q", rate=rate, burst=burst)])
        await Timebell(database, registry=Registry([app]), clock=clock, chance=Chance(1)).declare()
        store, next_free_us = EngineStore(clock), 0
        async with database.connection() as session:
            await session.connection.execute("UPDATE timebell.queue_rates SET next_free_at = '-infinity'")
            for after_us, wanted, window_us in asks:
                clock.move(timedelta(microseconds=after_us))
                expected = lease_starts(
                    now_us=(clock.now - EPOCH) // timedelta(microseconds=1),
                    next_free_us=next_free_us,
                    per_second=rate / STRETCH,
                    burst=burst,
                    wanted=wanted,
                    window_us=window_us,
                )
                row = await store.lease_starts(session, queue="q", wanted=wanted, window_us=window_us)
                assert row is not None
                first_us = (row["first_at"] - EPOCH) // timedelta(microseconds=1)
                given = (first_us, row["granted"], row["spacing_us"])
                assert given == (expected.first_us, expected.count, expected.spacing_us)
                next_free_us = expected.next_free_us
    finally:
        await database.close()


@pytest.mark.req("U-8", "J-0.1")
@pytest.mark.parametrize("mode", ["plain", "transactional", "external"])
async def test_five_at_once_over_three_nodes_is_five_at_every_moment(cluster: Cluster, mode: Any) -> None:
    starts = Starts(cluster.clock)
    nodes = await three_nodes(cluster, starts.app(Queue(name="q", concurrency=5), mode))
    await enqueue(nodes[0], 200)
    starts.until = asyncio.Event()
    await begin_some(nodes, starts, 5)
    for _ in range(10):
        cluster.clock.move(timedelta(milliseconds=60))
        await begin_some(nodes, starts, 5)
    starts.until.set()
    starts.until = None
    await pass_time(cluster, nodes, 3 * SECOND, timedelta(milliseconds=60))
    assert len(starts.at) == len(starts.begun) == 200
    assert starts.most_running == 5
    assert min(node.engine.worker.counters.done for node in nodes) > 20, "a node went without"


@pytest.mark.req("U-8")
async def test_a_limit_of_the_settings_holds_in_the_place_of_the_apps(cluster: Cluster) -> None:
    starts = Starts(cluster.clock)
    limits = (QueueSettings(name="q", concurrency=2),)
    node = await cluster.node([starts.app(Queue(name="q", concurrency=9))], queues=limits)
    await enqueue(node, 20)
    starts.until = asyncio.Event()
    await begin_some([node], starts, 2)
    starts.until.set()
    await node.run_due()
    assert (len(starts.at), starts.most_running) == (20, 2)


@pytest.mark.req("U-8")
async def test_permits_of_an_idle_node_go_to_those_who_have_work(cluster: Cluster, owner: Owner) -> None:
    """One node had all the permits and has nothing left to do: it gives them back by itself."""
    starts = Starts(cluster.clock)
    first = await cluster.node([starts.app(Queue(name="q", concurrency=3))])
    await enqueue(first, 30)
    await first.run_due()
    assert await owner.value("SELECT held FROM timebell.permits") == 3
    cluster.clock.move(timedelta(milliseconds=60))
    await first.turn()
    assert await owner.value("SELECT held FROM timebell.permits") == 0


@pytest.mark.req("U-8")
async def test_permits_die_with_their_node(cluster: Cluster, owner: Owner) -> None:
    starts = Starts(cluster.clock)
    starts.until = asyncio.Event()
    app = starts.app(Queue(name="q", concurrency=4), "external")
    doomed = await cluster.node([app])
    await enqueue(doomed, 20)
    await begin_some([doomed], starts, 4)
    survivor = await cluster.node([app])
    await survivor.run_due()
    assert starts.running == 4, "the limit is used up"
    starts.until = None
    await cluster.kill(doomed)
    await settle([survivor])
    await pass_time(cluster, [survivor], SECOND, timedelta(milliseconds=60))
    assert sorted(starts.begun) == list(range(20))
    assert await owner.value("SELECT count(*) FROM timebell.jobs") == 0
    assert (
        await owner.value("SELECT count(*) FROM timebell.permits WHERE incarnation = $1", doomed.incarnation)
        == 0
    )


async def begin_some(nodes: Sequence[ClusterNode], starts: Starts, number: int) -> None:
    """Let the nodes go on, with handlers that wait, until so many run."""
    for _ in range(1_000):
        for node in nodes:
            await node.engine.worker.tick()
        going_on = [each for node in nodes for each in node.engine.worker.background.going_on]
        await asyncio.wait([*going_on, asyncio.ensure_future(asyncio.sleep(0))], timeout=1.0)
        if starts.running == number:
            return
    raise AssertionError(f"{starts.running} run, not {number}")


@pytest.mark.req("U-8")
async def test_one_at_once_over_three_nodes_starves_nobody(cluster: Cluster) -> None:
    """Each node has more to do than it can. Jobs that take just as long as three turns are the hard case."""
    length, step = timedelta(seconds=1.5), timedelta(milliseconds=100)
    running: dict[asyncio.Event, datetime] = {}
    by_node: Counter[int] = Counter()

    def app_of(number: int) -> App:
        async def run(job: Job) -> None:
            assert not running, "two at once"
            end = asyncio.Event()
            running[end] = cluster.clock.now + length
            by_node[number] += 1
            await end.wait()
            del running[end]

        handler = Handler(run=run, mode="external", queue="q")
        return App(name="t", handlers={"t.run": handler}, queues=[Queue(name="q", concurrency=1)])

    nodes = [await cluster.node([app_of(number)]) for number in range(3)]
    await settle(nodes)
    await enqueue(nodes[0], 300)
    for passed in range(200):
        cluster.clock.move(step)
        for end, at in running.items():
            if at <= cluster.clock.now:
                end.set()
        for node in nodes:
            if passed % 50 == 0:
                await node.engine.beat()
            for _ in range(6):
                await one_pass(node)
    await end_all(list(running), nodes)
    assert 9 <= by_node.total() <= 14, "the permit is handed on without long gaps"
    assert min(by_node[number] for number in range(3)) >= 2, f"a node went without: {by_node}"


@pytest.mark.req("U-8")
async def test_one_node_at_a_time_decides_about_permits(cluster: Cluster, owner: Owner) -> None:
    """The second waits, and then sees what the first has taken, not what was there before it had to wait."""
    starts = Starts(cluster.clock)
    starts.until = asyncio.Event()
    app = starts.app(Queue(name="q", concurrency=5), "external")
    first, second = await cluster.node([app]), await cluster.node([app])
    await settle([first, second])
    await enqueue(first, 100)
    hold = first.stage.hold("after", "read_permits")
    turns = [asyncio.create_task(first.turn())]
    async with asyncio.timeout(20):
        await hold.reached.wait()
        turns.append(asyncio.create_task(second.turn()))
        await until_someone_waits(owner)
    hold.release()
    await begin_some([first, second], starts, 5)
    starts.until.set()
    starts.until = None
    await asyncio.gather(*turns)
    assert starts.most_running == 5


async def until_someone_waits(owner: Owner) -> None:
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE NOT granted "
        "AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
    )
    async with asyncio.timeout(10):
        while not await owner.value(waiting):
            continue


@pytest.mark.req("U-8")
async def test_what_is_given_back_while_a_job_ends_is_not_used_as_well(cluster: Cluster) -> None:
    """The node writes down that it gives a permit back; a job that could begin just then must not."""
    running: list[asyncio.Event] = []
    most_running = 0

    async def run(job: Job) -> None:
        nonlocal most_running
        end = asyncio.Event()
        running.append(end)
        most_running = max(most_running, len(running))
        await end.wait()
        running.remove(end)

    handler = Handler(run=run, mode="external", queue="q")
    app = App(name="t", handlers={"t.run": handler}, queues=[Queue(name="q", concurrency=2)])
    greedy = await cluster.node([app])
    await enqueue(greedy, 400)
    await let_go(greedy, lambda: len(running) == 2)
    other = await cluster.node([app])
    await settle([greedy, other])
    await let_go(other, lambda: other.stage.counts["write_permits"] == 1)
    await let_go(other, lambda: not other.engine.worker.background.going_on)

    read = greedy.stage.hold("after", "read_permits")
    write = greedy.stage.hold("before", "write_permits")
    cluster.clock.move(timedelta(milliseconds=60))
    await let_go(greedy, read.reached.is_set)
    running[0].set()
    await until(lambda: len(greedy.engine.worker.attempts) == 1)
    read.release()
    await until(write.reached.is_set)
    for _ in range(20):
        await one_pass(greedy)
    write.release()
    await let_go(greedy, lambda: not greedy.engine.worker.background.going_on)
    cluster.clock.move(timedelta(milliseconds=60))
    await let_go(other, lambda: bool(other.engine.worker.attempts.running))
    assert most_running == 2
    await end_all(list(running), [greedy, other])


async def end_all(running: Sequence[asyncio.Event], nodes: Sequence[ClusterNode]) -> None:
    """Let what runs come to its end, and begin nothing more."""
    for node in nodes:
        node.engine.worker._starter.is_stopping = True
    for end in running:
        end.set()
    for node in nodes:
        await let_go(node, lambda node=node: not node.engine.worker.attempts.running)  # type: ignore[misc]


async def until(is_so: Callable[[], bool]) -> None:
    """Let what goes on go on, and begin nothing."""
    for _ in range(100_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def one_pass(node: ClusterNode) -> None:
    await node.engine.worker.tick()
    going_on = node.engine.worker.background.going_on
    await asyncio.wait([*going_on, asyncio.ensure_future(asyncio.sleep(0))], timeout=0.005)


async def let_go(node: ClusterNode, is_so: Callable[[], bool]) -> None:
    """Let one node go on until something is so."""
    for _ in range(2_000):
        if is_so():
            return
        await one_pass(node)
    raise AssertionError("it never came to that")
