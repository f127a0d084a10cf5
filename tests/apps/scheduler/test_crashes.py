"""Processes that die: nothing is lost, and what comes twice is known by its id and its instant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
import pytest

from tests.apps.scheduler.support import HOUR, NOW, app_on, desk, message, take_in
from tests.engine.support import Cluster, ClusterNode, Moment, Owner, Stage, connect
from timebell.apps.scheduler.handlers import DUE, LAG
from timebell.apps.scheduler.messages import read_message
from timebell.apps.scheduler.models import ScheduleRequest
from timebell.apps.scheduler.service import CANCELLED, QUEUED, Scheduler
from timebell.apps.scheduler.topology import REQUESTS, topology
from timebell.brokers.local import LocalBroker
from timebell.brokers.local_server import LocalServer
from timebell.client.dedupe import LastSeen, dedupe
from timebell.db.pool import Database
from timebell.kernel import Registry, Timebell
from timebell.server import opened_apps
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


@asynccontextmanager
async def consumer(
    database: TestDatabase, server: LocalServer, gate: Stage
) -> AsyncIterator[tuple[Timebell, LocalBroker]]:
    """A process that takes in and publishes nothing."""
    app, broker = app_on(server)
    pool = await Database.open(database.url, gate=gate)
    bell = Timebell(pool, registry=Registry([app]), clock=ManualClock(NOW))
    await broker.open(topology(""))
    yield bell, broker
    await bell.close()
    await pool.close()


@pytest.mark.req("S-1.3")
@pytest.mark.parametrize(("moment", "rows_then"), [("before", 0), ("after", 1)])
async def test_an_intake_that_dies_around_its_commit_loses_and_doubles_nothing(
    scheduler_database: TestDatabase, moment: Moment, rows_then: int
) -> None:
    stage = Stage()
    async with (
        desk(scheduler_database) as post,
        consumer(scheduler_database, post.server, stage) as (bell, broker),
    ):
        await post.post(message("ScheduleRequest", "a", at=AT))
        hold = stage.hold(moment, "COMMIT")
        taking = asyncio.create_task(take_in(bell, broker))
        async with asyncio.timeout(30):
            await hold.reached.wait()
        # Its connection to the broker breaks with it: what was not acknowledged comes to somebody else.
        broker.die()
        taking.cancel()
        await asyncio.wait({taking})
        assert len(await post.rows()) == rows_then
        assert len(post.server.messages(REQUESTS)) == 1
        await take_in(post.bell, post.broker)
        assert len(await post.rows()) == 1
        await post.run_to(AT)
        assert len(post.fired()) == 1
        assert post.counted(QUEUED) == 1 - rows_then


async def test_it_is_acknowledged_after_the_commit_and_not_before(scheduler_database: TestDatabase) -> None:
    stage = Stage()
    async with desk(scheduler_database, gate=stage) as post:
        await post.post(message("ScheduleRequest", "a", at=AT))
        hold = stage.hold("before", "COMMIT")
        taking = asyncio.create_task(take_in(post.bell, post.broker))
        async with asyncio.timeout(30):
            await hold.reached.wait()
            assert len(post.server.messages(REQUESTS)) == 1
            hold.release()
            await taking
        assert post.server.messages(REQUESTS) == []


@dataclass(slots=True, kw_only=True)
class Producers:
    """Nodes that publish, of which some die."""

    cluster: Cluster
    server: LocalServer
    stack: AsyncExitStack

    async def node(self, name: str) -> ClusterNode:
        app, broker = app_on(self.server)
        node = await self.cluster.node([app], node_name=name, horizon_days=30)
        await self.stack.enter_async_context(opened_apps(node.bell))
        self.stack.push_async_callback(broker.close)
        return node

    def fired(self) -> list[tuple[str, str]]:
        bodies = [orjson.loads(one.body) for one in self.server.messages("timebell.due")]
        return [(body["id"], body["scheduled_for"][11:19]) for body in bodies]


@asynccontextmanager
async def producers(database: TestDatabase) -> AsyncIterator[Producers]:
    admin = await connect(database.admin_url)
    cluster = Cluster(database, Owner(admin), admin)
    cluster.clock.move_to(NOW + 365 * timedelta(days=1))
    try:
        async with AsyncExitStack() as stack:
            yield Producers(cluster=cluster, server=LocalServer(), stack=stack)
    finally:
        await cluster.close()
        await admin.close(timeout=10)


async def ask(node: ClusterNode, id: str, **fields: Any) -> None:
    asked = read_message(message("ScheduleRequest", id, **fields).body)
    assert isinstance(asked, ScheduleRequest)
    scheduler = Scheduler(node.bell)
    async with node.bell.transaction() as tx:
        taken = await scheduler.request_many(tx, [asked])
    scheduler.tell("default", taken)


async def cancel(node: ClusterNode, id: str) -> None:
    scheduler = Scheduler(node.bell)
    async with node.bell.transaction() as tx:
        withdrawn = await scheduler.cancel_many(tx, [id])
    scheduler.tell("default", withdrawn)


@pytest.mark.req("S-5.1")
@pytest.mark.parametrize(
    ("moment", "statement", "count"),
    [
        ("before", "start_jobs", 1),
        ("after", "start_jobs", 1),
        ("before", "read_fired", 1),
        ("before", "finish_jobs", 2),
    ],
)
async def test_a_producer_that_dies_leaves_what_it_published_to_be_published_again(
    scheduler_database: TestDatabase, moment: Moment, statement: str, count: int
) -> None:
    async with producers(scheduler_database) as world:
        first = await world.node("first")
        await ask(first, "a", at=world.cluster.clock.now)
        await first.run_until(first.stage.hold(moment, statement))
        await world.cluster.kill(first)
        second = await world.node("second")
        await second.run_due()
        assert len(world.fired()) == count
        assert len({*world.fired()}) == 1
        ids = {one.message_id for one in world.server.messages("timebell.due")}
        assert len(ids) == 1
        async with second.bell.transaction() as tx:
            one = await Scheduler(second.bell).get(tx, "a")
        assert (one.status, one.fired_count) == ("done", 1)


@pytest.mark.req("S-5.1", "S-5.2")
async def test_of_what_recurs_a_receiver_takes_each_occurrence_once(scheduler_database: TestDatabase) -> None:
    async with producers(scheduler_database) as world:
        clock = world.cluster.clock
        first = await world.node("first")
        await ask(first, "a", rrule="FREQ=HOURLY;COUNT=3")
        await first.run_due()
        clock.move(HOUR)
        await first.run_until(first.stage.hold("before", "finish_jobs"))
        await world.cluster.kill(first)
        second = await world.node("second")
        await second.run_due()
        clock.move(HOUR)
        await second.run_due()
        assert [at for _, at in world.fired()] == ["08:00:00", "09:00:00", "09:00:00", "10:00:00"]
        seen = LastSeen()
        passed = [
            due
            for one in world.server.messages("timebell.due")
            if (due := dedupe(one.body, seen)) is not None
        ]
        assert len(passed) == 3
        async with second.bell.transaction() as tx:
            one = await Scheduler(second.bell).get(tx, "a")
        assert (one.status, one.fired_count) == ("done", 3)


@pytest.mark.req("S-5.3")
async def test_producers_that_keep_dying_miss_nothing(scheduler_database: TestDatabase) -> None:
    """Ten deaths at different places; what is fired is what was asked for, and nothing else."""
    places: list[tuple[Moment, str]] = [
        (moment, name)
        for name in ("read_due", "start_jobs", "read_fired", "count_fired", "finish_jobs")
        for moment in ("before", "after")
    ]
    async with producers(scheduler_database) as world:
        clock = world.cluster.clock
        node = await world.node("0")
        expected = set()
        for number in range(20):
            due_at = clock.now + timedelta(minutes=number)
            await ask(node, f"{number}", at=due_at)
            expected.add((f"{number}", f"{due_at:%H:%M:%S}"))
        await ask(node, "again", rrule="FREQ=MINUTELY;COUNT=20", misfire="fire_all")
        expected |= {("again", f"{clock.now + timedelta(minutes=n):%H:%M:%S}") for n in range(20)}
        for number, (moment, name) in enumerate(places, 1):
            if not await node.survives(node.stage.hold(moment, name)):
                await world.cluster.kill(node)
                node = await world.node(f"{number}")
                # A job that is there at the death of five nodes in a row would be suspected, and wait for an operator.
                await node.run_due()
            clock.move(timedelta(minutes=2))
        await node.run_due()
        assert {*world.fired()} == expected
        assert len(world.fired()) > len(expected)
        async with node.bell.transaction() as tx:
            page = await Scheduler(node.bell).list(tx, limit=50, cursor=None)
        assert {one.status for one in page.lines} == {"done"}


@pytest.mark.req("S-6.2")
async def test_what_is_counted(scheduler_database: TestDatabase) -> None:
    """Five requests of which one is a duplicate, a cancel, three fires, and one that is fired again after a crash."""
    async with producers(scheduler_database) as world:
        first = await world.node("first")
        now = world.cluster.clock.now
        for id, minutes in (("a", 0), ("b", 1), ("c", 1), ("d", 1), ("d", 1)):
            await ask(first, id, at=now + timedelta(minutes=minutes))
        await cancel(first, "d")
        await first.run_until(first.stage.hold("before", "finish_jobs"))
        await world.cluster.kill(first)
        second = await world.node("second")
        await second.run_due()
        world.cluster.clock.move(timedelta(minutes=1))
        await second.run_due()
        counts = [first.bell.tallies.counted, second.bell.tallies.counted]
        totals = [sum(one[name][()] for one in counts) for name in (QUEUED, CANCELLED, DUE)]
        assert totals == [4, 1, 4]
        assert sum(one.bell.tallies.spreads[LAG].count for one in (first, second)) == 4
