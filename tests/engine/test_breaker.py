"""A destination that does not answer is left alone until it does, by all nodes, and the jobs wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine.limits.breakers import Breakers
from timebell.engine.pruner import Pruner
from timebell.engine.store import EngineStore
from timebell.kernel import App, Enqueue, Handler, Job, Outcome, Retry, Snooze, Timebell
from timebell.kernel.events.audit import Audit
from timebell.rules.backoff import ErrorClass
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
FAILURES = 5


class Provider:
    """Stands for what is out there: it counts the calls, and answers unless it is down."""

    def __init__(self, *, error_class: ErrorClass = "unavailable") -> None:
        self.is_down = True
        self.error_class = error_class
        self.clock: ManualClock | None = None
        self.calls: list[datetime] = []
        self.numbers: Counter[int] = Counter()

    def app(self, destination: Any = "bank") -> App:
        async def call(job: Job) -> Outcome | None:
            assert self.clock is not None
            self.calls.append(self.clock.now)
            self.numbers[job.attempt] += 1
            if self.is_down:
                return Retry("no answer", self.error_class)
            return None

        handler = Handler(run=call, mode="external", destination=destination)
        return App(name="t", handlers={"t.call": handler})


async def enqueue(bell: Timebell, number: int, **options: Any) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue_many(tx, [Enqueue(kind="t.call", **options) for _ in range(number)])


async def pass_time(
    clock: ManualClock, nodes: Sequence[Harness | ClusterNode], by: timedelta, step: timedelta = 5 * SECOND
) -> None:
    """In steps: what was held comes back spread over a second, and need not be met one by one."""
    until = clock.now + by
    while clock.now < until:
        clock.move(step)
        for node in nodes:
            await node.run_due()


@pytest.mark.req("J-13.2", "U-17")
async def test_a_provider_that_is_down_gets_a_few_calls_and_then_probes(
    database_url: TestDatabase, owner: Owner
) -> None:
    """A thousand jobs due, ten at once: the calls under way when it opens, and one probe for each spell."""
    provider = Provider()
    async with harness(database_url.url, [provider.app()], concurrency=10) as h:
        provider.clock = h.clock
        await enqueue(h.bell, 1_000)
        await h.run_due()
        assert FAILURES <= len(provider.calls) <= 10
        (breaker,) = await owner.rows("SELECT * FROM timebell.breakers")
        assert breaker["destination"] == "bank"
        await pass_time(h.clock, [h], 10 * MINUTE, 10 * SECOND)
        probes = len(provider.calls) - 10
        assert 2 <= probes <= 6, "spells grow from half a minute to five"
        jobs = await owner.jobs()
        assert len(jobs) == 1_000
        assert {row["attempt"] for row in jobs} == {0}, "waiting costs no attempt"
        provider.is_down = False
        for _ in range(100):
            if not await owner.rows("SELECT * FROM timebell.breakers"):
                break
            await pass_time(h.clock, [h], 10 * SECOND)
        await pass_time(h.clock, [h], 10 * SECOND)
        assert len(await owner.log("done")) > 980, "they wait for the probe, not for another spell"
        await pass_time(h.clock, [h], MINUTE)
    assert len(provider.calls) == 10 + probes + 1_000
    assert set(provider.numbers) == {1}
    assert len(await owner.log("done")) == 1_000
    assert await owner.rows("SELECT * FROM timebell.breakers") == []


async def test_a_probe_that_cancels_its_own_task_has_answered_all_the_same(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The breaker is told after the answer, and the call was made: it must not be made again."""
    calls: list[int] = []

    async def call(job: Job) -> Outcome | None:
        calls.append(job.attempt)
        if len(calls) <= FAILURES:
            return Retry("no answer", "unavailable")
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        return None

    app = App(name="t", handlers={"t.call": Handler(run=call, mode="external", destination="bank")})
    async with harness(database_url.url, [app], concurrency=1) as h:
        await enqueue(h.bell, FAILURES)
        await h.run_due()
        assert len(calls) == FAILURES
        await h.advance(20 * MINUTE)
    assert len(calls) == 2 * FAILURES
    assert len(await owner.log("done")) == FAILURES


@pytest.mark.req("U-17")
async def test_it_closes_after_one_answer_and_counts_anew(database_url: TestDatabase, owner: Owner) -> None:
    provider = Provider(error_class="transient")
    async with harness(database_url.url, [provider.app()], concurrency=1, max_attempts=50) as h:
        provider.clock = h.clock
        await enqueue(h.bell, FAILURES)
        await h.run_due()
        assert await owner.value("SELECT count(*) FROM timebell.breakers") == 1
        provider.is_down = False
        await h.advance(20 * MINUTE)
        assert len(await owner.log("done")) == FAILURES
        provider.is_down = True
        await enqueue(h.bell, FAILURES - 1)
        await h.run_due()
        assert await owner.value("SELECT count(*) FROM timebell.breakers") == 0, "four failures are not five"


@pytest.mark.req("U-17")
@pytest.mark.parametrize("error_class", ["permanent", "rate_limited"])
async def test_an_answer_of_no_is_an_answer(
    database_url: TestDatabase, owner: Owner, error_class: ErrorClass
) -> None:
    provider = Provider(error_class=error_class)
    async with harness(database_url.url, [provider.app()], concurrency=1) as h:
        provider.clock = h.clock
        await enqueue(h.bell, 40)
        await h.run_due()
    assert len(provider.calls) == 40
    assert await owner.rows("SELECT * FROM timebell.breakers") == []


@pytest.mark.req("U-17")
async def test_each_destination_has_a_breaker_of_its_own(database_url: TestDatabase, owner: Owner) -> None:
    calls: Counter[str] = Counter()

    async def call(job: Job) -> None:
        calls[job.payload["to"]] += 1
        if job.payload["to"] == "down":
            raise ConnectionError("no answer")

    handler = Handler(run=call, mode="external", destination=lambda job: str(job.payload["to"]))
    app = App(name="t", handlers={"t.call": handler})
    async with harness(database_url.url, [app], concurrency=1) as h:
        for _ in range(50):
            await enqueue(h.bell, 1, payload={"to": "down"})
            await enqueue(h.bell, 1, payload={"to": "up"})
        await h.run_due()
    assert calls == {"down": FAILURES, "up": 50}
    assert [row["destination"] for row in await owner.rows("SELECT * FROM timebell.breakers")] == ["down"]


@pytest.mark.req("J-13.2", "U-17")
async def test_what_one_node_learned_all_nodes_know(cluster: Cluster, owner: Owner) -> None:
    """The second node makes no call of its own while the breaker is open, and one probe serves both."""
    provider = Provider()
    provider.clock = cluster.clock
    nodes = [await cluster.node([provider.app()], concurrency=1) for _ in range(2)]
    for _ in range(2):
        for node in nodes:
            await node.engine.beat()
    await enqueue(nodes[0].bell, 400)
    await nodes[0].run_due()
    assert len(provider.calls) == FAILURES
    await nodes[1].run_due()
    assert len(provider.calls) == FAILURES
    await pass_time(cluster.clock, nodes, 32 * SECOND)
    assert len(provider.calls) == FAILURES + 1, "one probe"
    provider.is_down = False
    await pass_time(cluster.clock, nodes, 8 * MINUTE)
    assert len(await owner.log("done")) == 400
    assert set(provider.numbers) == {1}
    assert all(node.engine.worker.counters.done > 50 for node in nodes)


@pytest.mark.req("U-17")
async def test_of_two_nodes_that_would_probe_one_does(cluster: Cluster) -> None:
    """Both see the spell end at one instant, before either hears of the other."""
    provider = Provider()
    provider.clock = cluster.clock
    nodes = [await cluster.node([provider.app()], concurrency=1) for _ in range(2)]
    for _ in range(2):
        for node in nodes:
            await node.engine.beat()
    await enqueue(nodes[0].bell, 100)
    for node in nodes:
        await node.run_due()
    cluster.clock.move(32 * SECOND)
    for node in nodes:
        await node.engine.beat()
    for node in nodes:
        await node.turn()
    assert len(provider.calls) == FAILURES + 1


@pytest.mark.req("U-17")
async def test_a_probe_that_dies_with_its_node_delays_the_next_by_one_spell(cluster: Cluster) -> None:
    provider = Provider()
    provider.clock = cluster.clock
    doomed = await cluster.node([provider.app()], concurrency=1)
    await enqueue(doomed.bell, 20)
    await doomed.run_due()
    cluster.clock.move(31 * SECOND)
    hold = doomed.stage.hold("after", "claim_probe")
    await doomed.run_until(hold)
    await cluster.kill(doomed)
    provider.is_down = False
    survivor = await cluster.node([provider.app()], concurrency=1)
    await survivor.run_due()
    assert len(provider.calls) == FAILURES, "the spell that the lost probe began is kept"
    await pass_time(cluster.clock, [survivor], 90 * SECOND)
    assert len(provider.calls) == FAILURES + 20


async def test_jobs_that_depend_on_nothing_pass(database_url: TestDatabase) -> None:
    provider = Provider(error_class="transient")
    async with harness(database_url.url, [provider.app(None)], concurrency=1) as h:
        provider.clock = h.clock
        await enqueue(h.bell, 40)
        await h.run_due()
    assert len(provider.calls) == 40


@pytest.mark.req("U-11", "U-17")
async def test_what_expires_while_it_waits_for_the_destination_expires(
    database_url: TestDatabase, owner: Owner
) -> None:
    provider = Provider()
    async with harness(database_url.url, [provider.app()], concurrency=1) as h:
        provider.clock = h.clock
        await enqueue(h.bell, 50, expires_at=h.clock.now + 10 * SECOND)
        await h.advance(5 * MINUTE)
    assert len(provider.calls) == FAILURES
    assert len(await owner.log("expired")) == 50


@pytest.mark.parametrize("answer", [None, 7, ["bank"]])
async def test_a_destination_that_is_no_name_has_no_breaker_and_loses_no_job(
    database_url: TestDatabase, owner: Owner, answer: object
) -> None:
    provider = Provider()
    provider.is_down = False
    async with harness(database_url.url, [provider.app(lambda job: answer)]) as h:
        provider.clock = h.clock
        await enqueue(h.bell, 3)
        await h.run_due()
    assert len(provider.calls) == 3
    assert await owner.jobs() == []


@pytest.mark.req("J-13.2", "U-17")
async def test_a_handler_that_learns_its_destination_while_it_runs_asks_the_same_breaker(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Five failures open it for every job that would call there; one probe passes, and its success closes it."""
    is_down = True
    calls: list[datetime] = []
    held: list[datetime] = []

    async def call(job: Job) -> Outcome | None:
        leave = await job.destinations.ask("bank")
        if leave.held_until is not None:
            held.append(leave.held_until)
            return Snooze(until=leave.held_until)
        calls.append(h.clock.now)
        await job.destinations.answered(leave, "unavailable" if is_down else None)
        return Snooze(delay=SECOND) if is_down else None

    app = App(name="t", handlers={"t.call": Handler(run=call, mode="external")})
    async with harness(database_url.url, [app], concurrency=1) as h:
        await enqueue(h.bell, 20)
        await h.run_due()
        assert len(calls) == FAILURES
        assert len(held) == 20 - FAILURES
        assert all(until > h.clock.now for until in held)
        (breaker,) = await owner.rows("SELECT * FROM timebell.breakers")
        assert breaker["destination"] == "bank"
        await h.advance(10 * SECOND)
        assert len(calls) == FAILURES
        is_down = False
        await h.advance(5 * MINUTE)
        assert await owner.rows("SELECT * FROM timebell.breakers") == []
        await h.advance(5 * MINUTE)
    assert len(calls) == FAILURES + 20
    assert len(await owner.log("done")) == 20


async def test_a_breaker_that_nobody_asks_any_more_goes_after_an_hour(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Hosts are strangers' own words: what they leave behind must not add up."""
    async with harness(database_url.url, []) as h:
        breakers = Breakers(h.bell.database, EngineStore(h.bell.clock), h.bell.chance)
        pruner = Pruner(h.bell, EngineStore(h.bell.clock), Audit(h.bell.database, h.bell.clock))
        for host in ("asked.example", "forgotten.example"):
            for _ in range(5):
                await breakers.failed(host, "unavailable", h.clock.now, probe=False)
        h.clock.move(timedelta(minutes=59))
        await pruner.tick()
        assert await owner.value("SELECT count(*) FROM timebell.breakers") == 2
        async with h.bell.database.connection() as session:
            await breakers.refresh(session, h.clock.now)
        assert await breakers.claim_probe("asked.example", h.clock.now, 1)
        h.clock.move(timedelta(minutes=5))
        await pruner.tick()
        rows = await owner.rows("SELECT destination FROM timebell.breakers")
        assert [row["destination"] for row in rows] == ["asked.example"]


async def test_who_fails_now_and_then_makes_room_for_who_fails_next(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.engine.limits.breakers._DESTINATIONS_MAX", 2)
    async with harness(database_url.url, []) as h:
        breakers = Breakers(h.bell.database, EngineStore(h.bell.clock), h.bell.chance)
        for host in ("a.example", "b.example", *["c.example"] * 5):
            await breakers.failed(host, "unavailable", h.clock.now, probe=False)
        assert breakers.may_pass("c.example", h.clock.now) == "hold"


async def test_hosts_that_strangers_named_close_no_other_breaker(
    database_url: TestDatabase, owner: Owner
) -> None:
    """More are open than a node reads; what it opened itself and does not find among them holds until its end."""
    async with harness(database_url.url, []) as h:
        breakers = Breakers(h.bell.database, EngineStore(h.bell.clock), h.bell.chance)
        for host in ("provider", "closed.example"):
            for _ in range(5):
                await breakers.failed(host, "unavailable", h.clock.now, probe=False)
        await owner.rows(
            "INSERT INTO timebell.breakers (destination, failure_count, open_seconds, open_until, updated_at) "
            "SELECT 'a' || n, 5, 600, open_until + interval '1 second', updated_at "
            "FROM timebell.breakers, generate_series(1, 10000) n WHERE destination = 'provider'"
        )
        async with h.bell.database.connection() as session:
            await breakers.refresh(session, h.clock.now)
        assert breakers.may_pass("provider", h.clock.now) == "hold"
        assert breakers.may_pass("a10000", h.clock.now) == "hold"
        # One that another node closed lets calls through at the end of its spell at the latest.
        await owner.rows("DELETE FROM timebell.breakers WHERE destination = 'closed.example'")
        h.clock.move(MINUTE)
        assert not await breakers.claim_probe("closed.example", h.clock.now, 1)
        assert breakers.may_pass("closed.example", h.clock.now) == "pass"
        assert await breakers.claim_probe("provider", h.clock.now, 1)
