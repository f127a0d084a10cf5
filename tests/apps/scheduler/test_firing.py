"""What is due once: it is published at its time, and done when the broker has confirmed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.apps.scheduler.support import HOUR, NOW, Desk, app_on, desk, is_there, message
from tests.daily import daily_seed
from timebell.apps.scheduler import handlers, with_broker
from timebell.apps.scheduler.app import GAUGES
from timebell.apps.scheduler.handlers import DUE, FAILURES
from timebell.apps.scheduler.models import ScheduleRequest
from timebell.apps.scheduler.service import Scheduler
from timebell.apps.scheduler.store import Row, SchedulerStore
from timebell.apps.scheduler.topology import topology
from timebell.brokers import Heard, Message, local
from timebell.brokers.local import LocalBroker
from timebell.brokers.local_server import Fate, LocalServer
from timebell.clock import Chance
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.errors import InvalidInput
from timebell.kernel import Registry, Session, Timebell
from timebell.kernel.insights.insights import Insights
from timebell.server import opened_apps
from timebell.testing import harness
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


@pytest.mark.req("S-2.1")
async def test_a_request_is_a_row_that_is_due_at_its_instant(post: Desk) -> None:
    await post.ask("a", at="2025-07-10T09:00:00Z")
    one = await post.get("a")
    assert (one.status, one.upcoming_at, one.due_at, one.fired_count) == ("pending", AT, AT, 0)


@pytest.mark.req("S-2.2")
async def test_it_fires_at_its_instant_and_not_before(post: Desk) -> None:
    await post.ask("a", at=AT)
    await post.run_to(AT - timedelta(milliseconds=1))
    assert post.dues() == []
    await post.run_to(AT)
    (due,) = post.dues()
    assert due == {
        "type": "ScheduleDue",
        "id": "a",
        "tenant": "default",
        "fired_at": "2025-07-10T09:00:00.000000Z",
        "scheduled_for": "2025-07-10T09:00:00.000000Z",
        "occurrence": None,
        "payload": None,
    }
    one = await post.get("a")
    assert (one.status, one.upcoming_at, one.fired_count) == ("done", None, 1)
    await post.run_to(AT + HOUR)
    assert len(post.dues()) == 1


@pytest.mark.req("S-2.3")
async def test_while_the_broker_is_away_it_is_pending(post: Desk) -> None:
    """Nothing is tried that must fail, nothing is counted against it, and it fires when the broker is back."""
    await post.ask("a", at=AT)
    post.server.stop()
    await post.broker_left()
    await post.run_to(AT + timedelta(minutes=5))
    assert await post.status("a") == "pending"
    (job,) = await post.rows("SELECT attempt, started_by, lane FROM timebell.jobs")
    assert (job["attempt"], job["started_by"], job["lane"]) == (0, None, 2)
    assert "scheduler" in post.bell.holds
    post.server.start()
    await is_there(post)
    await post.run_to(AT + timedelta(minutes=6))
    assert [(due["scheduled_for"], due["fired_at"]) for due in post.dues()] == [
        ("2025-07-10T09:00:00.000000Z", "2025-07-10T09:05:00.000000Z")
    ]
    assert await post.status("a") == "done"


@pytest.mark.req("S-2.3", "S-6.3")
@pytest.mark.parametrize(
    ("fate", "failure"), [("lose", "away"), ("refuse", "refused"), ("return", "returned")]
)
async def test_what_is_not_confirmed_is_pending(post: Desk, fate: Any, failure: str) -> None:
    await post.ask("a", at=AT, payload=1)
    post.server.fate = lambda message: Fate(sort=fate)
    await post.run_to(AT + timedelta(seconds=9))
    assert await post.status("a") == "pending"
    assert post.dues() == []
    assert post.counted(DUE) == 0
    assert 5 <= post.counted(FAILURES, failure) <= 12
    (job,) = await post.rows("SELECT attempt FROM timebell.jobs")
    assert job["attempt"] == 0
    post.server.fate = lambda message: Fate()
    await post.run_to(AT + timedelta(minutes=2))
    assert post.fired() == [("a", "2025-07-10T09:00:00.000000Z")]
    assert await post.status("a") == "done"
    assert post.counted(DUE) == 1


@pytest.mark.req("S-2.3", "S-2.6")
async def test_however_late_it_is_a_broker_that_was_lost_costs_it_nothing(post: Desk) -> None:
    await post.ask("a", at=NOW - timedelta(days=400))
    post.server.fate = lambda message: Fate(sort="lose")
    await post.run_to(NOW + timedelta(seconds=5))
    assert await post.status("a") == "pending"
    post.server.fate = lambda message: Fate()
    await post.run_to(NOW + timedelta(minutes=1))
    assert await post.status("a") == "done"
    assert await post.rows("SELECT FROM timebell.dead_jobs") == []


async def test_a_job_that_somebody_made_up_dies_alone(post: Desk) -> None:
    """It leaves together with others, which are published."""
    await post.ask("again", rrule="FREQ=DAILY", dtstart=AT)
    (row,) = await post.rows("SELECT schedule_id FROM scheduler.requests")
    async with post.bell.transaction() as tx:
        made_up = {"id": "again", "schedule_id": str(row["schedule_id"]), "occurrence_id": "x"}
        await post.bell.enqueue(tx, "scheduler.fire", made_up)
    await post.ask("a", at=NOW)
    await post.harness.run_due()
    assert [id for id, _ in post.fired()] == ["a"]
    (dead,) = await post.rows("SELECT error FROM timebell.dead_jobs")
    assert "does not say which occurrence" in dead["error"]


async def test_what_died_is_not_revived_as_something_else(post: Desk) -> None:
    """Its payload says which request it is for, and is not the operator's to change."""
    await post.ask("a", at=AT)
    await post.ask("b", at=AT + HOUR)
    await post.rows("UPDATE timebell.jobs SET payload = '{}' WHERE payload->>'id' = 'a'")
    await post.run_to(AT)
    (dead,) = await post.rows("SELECT id FROM timebell.dead_jobs")
    async with post.bell.transaction() as tx:
        with pytest.raises(
            InvalidInput, match=r"^payload: a job of the kind scheduler.fire is revived with the"
        ):
            await post.bell.revive(tx, ids=[dead["id"]], payload={"id": "b"})
        assert await post.bell.revive(tx, ids=[UUID(int=1)], payload={"id": "b"}) == []
    assert len(await post.rows("SELECT FROM timebell.dead_jobs")) == 1
    async with post.bell.transaction() as tx:
        assert len(await post.bell.revive(tx, ids=[dead["id"]])) == 1


@pytest.mark.req("S-6.3")
async def test_what_is_overdue_is_shown_while_nobody_publishes(post: Desk) -> None:
    async def shown() -> dict[str, float | None]:
        depths = {one.queue: one for one in await Insights(post.bell.database, post.clock).depth()}
        return {gauge.name: gauge.of(depths) for gauge in GAUGES}

    await post.send(*[message("ScheduleRequest", f"{number}", at=AT) for number in range(100)])
    await post.ask("later", at=AT + HOUR)
    assert await shown() == {"jobs_pending": 101, "jobs_overdue": 0}
    post.clock.move_to(AT + timedelta(seconds=1))
    assert await shown() == {"jobs_pending": 101, "jobs_overdue": 100}
    post.server.stop()
    await post.broker_left()
    await post.harness.run_due()
    assert await shown() == {"jobs_pending": 101, "jobs_overdue": 100}, "what is parked is overdue too"
    post.server.start()
    await is_there(post)
    await post.run_to(AT + timedelta(seconds=2))
    assert await shown() == {"jobs_pending": 1, "jobs_overdue": 0}
    post.server.fate = lambda message: Fate(sort="return")
    for minutes in (0, 1, 30):
        await post.run_to(AT + HOUR + timedelta(minutes=minutes))
        assert await shown() == {"jobs_pending": 1, "jobs_overdue": 1}, "what no queue takes is overdue too"
    depths = await Insights(post.bell.database, post.clock).depth("default")
    (depth,) = [one for one in depths if one.queue == "scheduler"]
    assert (depth.future_count, depth.retrying_count) == (1, 1)
    post.server.fate = lambda message: Fate()
    await post.run_to(AT + 2 * HOUR)
    assert await shown() == {"jobs_pending": 0, "jobs_overdue": 0}


async def test_nobody_waits_for_the_confirm_of_another(post: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave together; a queue that has lost its majority confirms nothing, and that is its own trouble."""
    monkeypatch.setattr(local, "PUBLISH_SECONDS", 600.0)
    await post.send(
        *[message("ScheduleRequest", id, at=AT) for id in ("a", "slow", "b")],
        message("ScheduleRequest", "again", rrule="FREQ=DAILY;COUNT=1", dtstart=AT),
    )
    post.server.fate = lambda message: Fate(seconds=60 if b'"slow"' in message.body else 0)
    post.clock.move_to(AT)
    running = asyncio.create_task(post.harness.run_due())
    async with asyncio.timeout(30):
        while {await post.status(id) for id in ("a", "b", "again")} != {"done"}:
            pass
    assert await post.status("slow") == "pending"
    post.broker.cut()
    post.server.fate = lambda message: Fate()
    await running
    await is_there(post)
    await post.run_to(AT + timedelta(minutes=1))
    assert await post.status("slow") == "done"


async def test_what_is_read_and_published_together_is_bounded_by_its_bytes(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many large messages are due at once."""
    size, count = 10_000, 100
    monkeypatch.setattr(handlers, "READ_BYTES_MAX", 5 * size)
    monkeypatch.setattr(handlers, "UNDER_WAY_BYTES_MAX", 20 * size)
    async with desk(scheduler_database, concurrency=2 * count) as post:
        await post.send(
            *[message("ScheduleRequest", f"{n:03}", at=AT, payload="x" * size) for n in range(count)],
            message("ScheduleRequest", "without", at=AT),
        )
        read_bytes: list[int] = []
        read_fired, publish = SchedulerStore.read_fired, post.broker.publish
        under_way, most_under_way = 0, 0

        async def reading(self: SchedulerStore, session: Session, **given: Any) -> Sequence[Row]:
            rows = await read_fired(self, session, **given)
            read_bytes.append(sum(len(row["payload"] or "") for row in rows))
            return rows

        async def publishing(messages: list[Message], heard: Heard) -> object:
            nonlocal under_way, most_under_way
            given = sum(len(one.body) for one in messages)
            under_way += given
            most_under_way = max(most_under_way, under_way)
            for _ in range(100):
                await asyncio.sleep(0)
            answers = await publish(messages, heard)
            under_way -= given
            return answers

        monkeypatch.setattr(SchedulerStore, "read_fired", reading)
        monkeypatch.setattr(post.broker, "publish", publishing)
        await post.run_to(AT)
        assert len(post.fired()) == count + 1
        assert sum(read_bytes) == count * (size + 2)
        assert 5 * size <= max(read_bytes) <= 6 * size
        assert 5 * size <= most_under_way <= 27 * size
        assert len(read_bytes) <= count // 5 + 5


@pytest.mark.req("S-2.3")
async def test_what_no_queue_is_bound_for_waits_and_is_told(
    scheduler_database: TestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk(scheduler_database, broker_due_queue="") as post:
        await post.ask("a", at=AT)
        await post.run_to(AT + timedelta(minutes=10))
        lines = [record.getMessage() for record in caplog.records if record.name == "timebell.scheduler"]
        assert await post.status("a") == "pending"
        assert 20 < post.counted(FAILURES, "returned") < 70
        assert 1 <= len(lines) <= 60
        assert "bind a queue" in lines[0]
        await post.stranger.open(topology("mine"))
        await post.run_to(AT + timedelta(minutes=12))
        assert len(post.dues("mine")) == 1
        assert await post.status("a") == "done"


@pytest.mark.req("S-2.5")
async def test_four_producers_publish_each_once(scheduler_database: TestDatabase) -> None:
    count = 2_000
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(desk(scheduler_database))
        nodes = [first.harness]
        for number in (2, 3, 4):
            app, broker = app_on(first.server)
            other = await stack.enter_async_context(
                harness(scheduler_database.url, [app], clock=first.clock, node_name=f"n{number}", seed=number)
            )
            await stack.enter_async_context(opened_apps(other.bell))
            stack.push_async_callback(broker.close)
            nodes.append(other)
        for node in (*nodes, *nodes):
            await node.engine.beat()
        await first.send(*[message("ScheduleRequest", f"{number}", at=AT) for number in range(count)])
        first.clock.move_to(AT)
        for _ in range(50):
            await asyncio.gather(*[node.run_due() for node in nodes])
            if len(first.dues()) >= count:
                break
        assert sorted(int(id) for id, _ in first.fired()) == list(range(count))
        (told,) = await first.rows("SELECT count(DISTINCT node) AS nodes FROM timebell.job_log")
        assert told["nodes"] == 4


@pytest.mark.req("S-2.6")
async def test_what_is_past_fires_at_once(post: Desk) -> None:
    await post.ask("a", at=NOW - HOUR)
    await post.harness.run_due()
    assert post.fired() == [("a", "2025-07-10T07:00:00.000000Z")]
    assert await post.status("a") == "done"


async def test_many_that_were_due_go_out_in_the_order_of_their_time(post: Desk) -> None:
    """Also those that had to wait for the broker."""
    await post.send(
        *[message("ScheduleRequest", f"{n}", at=AT + timedelta(seconds=n * 7 % 300)) for n in range(300)]
    )
    post.server.stop()
    await post.broker_left()
    post.clock.move_to(AT + timedelta(minutes=10))
    await post.harness.run_due()
    assert post.dues() == []
    assert len(await post.rows("SELECT FROM timebell.jobs WHERE lane = 2")) == 300
    post.server.start()
    await is_there(post)
    await post.harness.run_due()
    instants = [scheduled for _, scheduled in post.fired()]
    assert len(instants) == 300
    # Those that are started together may overtake each other by a little.
    late = [before for before, after in pairwise(instants) if after < before]
    assert len(late) <= 10


@pytest.mark.parametrize("what", ["gone", "cancelled", "another"])
async def test_a_job_that_nobody_asks_for_publishes_nothing(post: Desk, what: str) -> None:
    await post.ask("a", at=AT)
    change = {
        "gone": "DELETE FROM scheduler.requests",
        "cancelled": "UPDATE scheduler.requests SET cancelled_at = now()",
        "another": "UPDATE scheduler.requests SET job_id = gen_random_uuid()",
    }
    await post.rows(change[what])
    await post.run_to(AT + HOUR)
    assert post.dues() == []
    (end,) = await post.rows("SELECT state, reason FROM timebell.job_log")
    assert end["state"] == "cancelled"


class Pulse:
    """How late this process itself is at most, on a machine that others use too."""

    _EVERY = 0.02

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.worst = 0.0
        self._beat(self._loop.time())

    def _beat(self, planned: float) -> None:
        now = self._loop.time()
        self.worst = max(self.worst, now - planned)
        self._next = self._loop.call_later(self._EVERY, self._beat, now + self._EVERY)

    def end(self) -> float:
        self._next.cancel()
        return self.worst


@pytest.mark.req("S-2.4")
async def test_in_real_time_what_is_due_leaves_within_half_a_second(scheduler_database: TestDatabase) -> None:
    """Two hundred at random instants of two seconds, on a node that goes by its own clock."""
    count, chance, server = 200, Chance(daily_seed()), LocalServer()
    broker, stranger = LocalBroker(server), LocalBroker(server)
    database = await Database.open(scheduler_database.url)
    bell = Timebell(database, registry=Registry([with_broker(broker)]))
    scheduler = Scheduler(bell)
    pulse = Pulse()
    async with opened_apps(bell), Engine(bell).running():
        await stranger.open(topology(""))
        async with bell.transaction() as tx:
            first = await scheduler.now(tx) + timedelta(seconds=0.5)
            requests = [
                ScheduleRequest(id=f"{number}", due_at=first + timedelta(seconds=2 * chance.fraction()))
                for number in range(count)
            ]
            await scheduler.request_many(tx, requests)
        dues: list[dict[str, Any]] = []
        async with (
            asyncio.timeout(30),
            stranger.intake("timebell.due", prefetch=count, body_bytes_max=1_000) as intake,
        ):
            while len(dues) < count:
                received = await intake.take(count)
                dues += [orjson.loads(one.body) for one in received]
                await intake.acknowledge(received)
    await stranger.close()
    await broker.close()
    await bell.close()
    await database.close()
    late = sorted(
        (
            datetime.fromisoformat(due["fired_at"]) - datetime.fromisoformat(due["scheduled_for"])
        ).total_seconds()
        for due in dues
    )
    assert len({due["id"] for due in dues}) == count
    assert late[0] >= 0
    # The engine, the database and the broker each wait for their turn on the processor.
    assert late[int(count * 0.99) - 1] <= 0.5 + 3 * pulse.end()
