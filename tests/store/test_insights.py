"""The figures: how much is owed, how late it is paid, and whether everything that pays is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import orjson
import pytest

from tests.store.insights_support import MINUTE, SECOND, ago, enqueue, log, write
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.records import QueueDepth
from timebell.testing.database import TestDatabase


@pytest.fixture
def insights(bell: Timebell, database: Database, clock: StillClock) -> Insights:
    """On a database in which the queues `default`, `mail` and `slow` were declared."""
    return Insights(database, clock)


async def depths(insights: Insights, tenant: str | None = None) -> dict[str, QueueDepth]:
    return {depth.queue: depth for depth in await insights.depth(tenant)}


@pytest.mark.req("A-9.2")
async def test_depth_equals_what_is_counted_in_the_table(insights: Insights, tables: Tables) -> None:
    for seconds in range(5):
        await enqueue(tables, queue="mail", run_at=ago(seconds * SECOND), lane=seconds % 2)
    await enqueue(tables, queue="mail", run_at=ago(HOUR), started_by=7, started_at=NOW)
    await enqueue(tables, queue="mail", run_at=ago(HOUR), lane=2)
    for hours in range(1, 4):
        await enqueue(tables, queue="mail", due_at=NOW + hours * HOUR)
    assert (await depths(insights))["mail"] == QueueDepth(
        queue="mail",
        due_count=5,
        started_count=1,
        parked_count=1,
        is_at_least=False,
        future_count=3,
        future_accuracy="exact",
        oldest_due_at=ago(4 * SECOND),
        lateness_seconds=4.0,
    )


async def test_depth_lists_every_declared_queue_in_order(insights: Insights, tables: Tables) -> None:
    await enqueue(tables, queue="mail")
    listed = await insights.depth()
    assert [depth.queue for depth in listed] == ["default", "mail", "slow"]
    empty = listed[2]
    assert (empty.due_count, empty.future_count, empty.oldest_due_at, empty.lateness_seconds) == (
        0,
        0,
        None,
        0,
    )


@pytest.mark.req("U-15")
async def test_depth_of_a_tenant_counts_its_own(insights: Insights, tables: Tables) -> None:
    for tenant, count in (("a", 2), ("b", 3)):
        for _ in range(count):
            await enqueue(tables, tenant=tenant, run_at=ago(count * SECOND))
            await enqueue(tables, tenant=tenant, due_at=NOW + HOUR)
    of_a = (await depths(insights, "a"))["default"]
    assert (of_a.due_count, of_a.future_count, of_a.lateness_seconds) == (2, 2, 2.0)
    of_all = (await depths(insights))["default"]
    assert (of_all.due_count, of_all.future_count, of_all.lateness_seconds) == (5, 5, 3.0)


async def test_depth_counts_up_to_its_bound_and_says_so(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.COUNT_MAX", 10)
    monkeypatch.setattr("timebell.kernel.insights.insights._SLOT_ROWS_MAX", 1)
    for number in range(10):
        await enqueue(tables, subject="one", run_at=ago(number * SECOND))
    exact = (await depths(insights))["default"]
    assert (exact.due_count, exact.is_at_least) == (10, False)
    await enqueue(tables, subject="one", run_at=ago(HOUR))
    await enqueue(tables, subject="two", queue="mail", run_at=ago(MINUTE))
    bounded = await depths(insights)
    # A share of each slot: the backlog about one subject does not hide the other queue, nor who waits longest.
    assert (bounded["default"].due_count, bounded["default"].oldest_due_at) == (1, ago(HOUR))
    assert (bounded["mail"].due_count, bounded["mail"].lateness_seconds) == (1, 60.0)
    assert all(depth.is_at_least for depth in bounded.values())


async def test_depth_of_a_large_table_is_estimated(
    insights: Insights, tables: Tables, database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tables.rows(
        "INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload) SELECT timebell.new_id(), "
        "'a', CASE WHEN n % 4 = 0 THEN 'mail' ELSE 'default' END, 'office.ring', $1::timestamptz, $1, '{}' "
        "FROM generate_series(1, 400) n",
        NOW + HOUR,
    )
    await enqueue(tables, queue="mail", run_at=ago(SECOND))
    monkeypatch.setattr("timebell.kernel.insights.insights.COUNT_MAX", 100)
    unknown_size = (await depths(insights))["mail"]
    assert unknown_size.future_accuracy == "at_least"
    await _as_owner(database_url, "ANALYZE timebell.jobs")
    estimated = await depths(insights)
    assert (estimated["mail"].future_accuracy, estimated["mail"].future_count) == ("estimate", 100)
    assert (estimated["default"].future_count, estimated["slow"].future_count) == (300, 0)
    assert (estimated["mail"].due_count, estimated["mail"].is_at_least) == (1, False)
    of_a = await depths(insights, "a")
    assert (of_a["mail"].future_accuracy, of_a["mail"].is_at_least) == ("at_least", True)
    assert of_a["mail"].future_count + of_a["default"].future_count == 101
    of_b = (await depths(insights, "b"))["mail"]
    assert (of_b.future_accuracy, of_b.future_count) == ("exact", 0)


async def test_lateness_is_that_of_first_attempts(insights: Insights, tables: Tables) -> None:
    for seconds in range(100):
        await log(tables, started_at=NOW, due_at=ago(seconds * 0.1 * SECOND), queue="mail")
    await log(tables, queue="mail", attempt=2, due_at=ago(HOUR))
    await log(tables, queue="mail", state="cancelled", started_at=None, due_at=ago(HOUR))
    await log(tables, queue="mail", finished_at=ago(2 * HOUR), started_at=ago(2 * HOUR), due_at=ago(9 * HOUR))
    await log(tables, queue="slow", due_at=ago(MINUTE))
    summary = await insights.lateness(queue="mail")
    assert (summary.sample_count, summary.queue, summary.minutes) == (100, "mail", 60)
    assert summary.p50_seconds == pytest.approx(4.9)
    assert summary.p99_seconds == pytest.approx(9.8)
    assert summary.seconds_max == pytest.approx(9.9)
    assert (await insights.lateness()).seconds_max == 60.0


async def test_lateness_is_never_negative_and_may_be_unknown(insights: Insights, tables: Tables) -> None:
    nothing = await insights.lateness()
    assert (nothing.sample_count, nothing.p50_seconds, nothing.seconds_max) == (0, None, None)
    await log(tables, due_at=NOW + HOUR, started_at=None)
    early = await insights.lateness()
    assert (early.sample_count, early.p50_seconds, early.seconds_max) == (1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("reason", "sample_count"), [("retry", 1), ("in quiet hours", 1), ("revived", 1), ("moved", 2)]
)
async def test_what_was_put_off_on_purpose_is_not_late(
    insights: Insights, tables: Tables, reason: str, sample_count: int
) -> None:
    await log(tables)
    id = await log(tables, state="pending", reason=reason, attempt=0, started_at=None, due_at=ago(HOUR))
    await log(tables, id=id, version=2, due_at=ago(HOUR))
    assert (await insights.lateness()).sample_count == sample_count


async def test_a_sample_is_bounded_and_of_the_newest(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.SAMPLE_MAX", 3)
    for seconds in (9, 8, 3, 2, 1):
        await log(tables, due_at=ago(seconds * 0.1 * SECOND))
    summary = await insights.lateness()
    assert summary.sample_count == 3
    assert summary.seconds_max == pytest.approx(0.3)


@pytest.mark.req("J-13.5")
async def test_throughput_counts_each_minute(insights: Insights, tables: Tables) -> None:
    for state, reason in [
        ("done", None),
        ("done", None),
        ("pending", "retry"),
        ("pending", "uncertain"),
        ("pending", "in quiet hours"),
        ("pending", "moved"),
        ("dead", "out of attempts"),
        ("dead", "discarded"),
        ("cancelled", "denied"),
        ("expired", "expired"),
        ("skipped", "late"),
    ]:
        await log(tables, state=state, reason=reason, finished_at=NOW + 59 * SECOND - MINUTE)
    await log(tables, finished_at=NOW)
    await log(tables, finished_at=ago(3 * MINUTE))
    before, present = await insights.throughput(2)
    assert (before.minute_at, present.minute_at) == (ago(MINUTE), NOW)
    assert (before.done_count, before.retried_count, before.dead_count) == (2, 2, 1)
    assert (before.cancelled_count, before.expired_count, before.skipped_count) == (1, 1, 1)
    assert (present.done_count, present.is_at_least) == (1, False)
    day = await insights.throughput(24 * 60)
    assert (len(day), sum(minute.done_count for minute in day)) == (1440, 4)


async def test_throughput_beyond_what_may_be_read_is_left_out(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights._TAIL_PAGES", 1)
    monkeypatch.setattr("timebell.kernel.insights.insights._TAIL_PAGES_MAX", 2)
    await tables.rows(
        "INSERT INTO timebell.job_log (id, tenant, queue, kind, version, attempt, state, due_at, finished_at) "
        "SELECT timebell.new_id(), 'a', 'default', 'office.ring', 1, 1, 'done', $1::timestamptz, "
        "$1 - (1000 - n) * interval '1 second' FROM generate_series(1, 1000) n",
        NOW,
    )
    minutes = await insights.throughput(60)
    assert 1 < len(minutes) < 16
    assert [minute.is_at_least for minute in minutes] == [True] + [False] * (len(minutes) - 1)
    assert all(minute.done_count == 60 for minute in minutes[1:-1])
    # What the end of the log wholly covers is not in doubt, though the day began before it.
    covered = await insights.throughput(len(minutes) - 1)
    assert [minute.is_at_least for minute in covered] == [False] * len(covered)


@pytest.mark.parametrize("minutes", [0, 24 * 60 + 1])
async def test_a_window_has_bounds(insights: Insights, minutes: int) -> None:
    for question in (insights.lateness, insights.throughput):
        with pytest.raises(InvalidInput) as refused:
            await question(minutes)
        assert refused.value.field == "minutes"


@pytest.mark.req("U-15")
async def test_queues_with_their_limits_and_pauses(insights: Insights, bell: Timebell) -> None:
    async with bell.transaction(tenant="a") as tx:
        await bell.pause(tx, "mail", reason="too loud", actor="ann")
    async with bell.transaction(tenant="b") as tx:
        await bell.pause(tx, "mail")
        await bell.pause(tx, "slow", everyone=True)
    default, mail, slow = await insights.queues()
    assert (default.name, default.rate_per_second, default.concurrency, default.pauses) == (
        "default",
        None,
        None,
        (),
    )
    assert (mail.rate_per_second, slow.concurrency) == (5.0, 1)
    assert [(pause.tenant, pause.reason, pause.actor) for pause in mail.pauses] == [
        ("a", "too loud", "ann"),
        ("b", None, None),
    ]
    assert (slow.pauses[0].tenant, slow.pauses[0].paused_at) == (None, NOW)
    _, mail_of_b, slow_of_b = await insights.queues("b")
    assert [pause.tenant for pause in mail_of_b.pauses] == ["b"]
    assert [pause.tenant for pause in slow_of_b.pauses] == [None]


async def _node(tables: Tables, incarnation: int, name: str, lease: timedelta) -> None:
    await tables.rows(
        "INSERT INTO timebell.nodes (incarnation, node, version, started_at, lease_until) "
        "VALUES ($1, $2, '1', now(), now() + $3)",
        incarnation,
        name,
        lease,
    )


async def test_nodes_are_those_that_live(insights: Insights, tables: Tables) -> None:
    """In real time: what the clock of the jobs says does not matter to a lease."""
    await _node(tables, 2, "north", MINUTE)
    await _node(tables, 1, "south", MINUTE)
    await _node(tables, 3, "lost", -SECOND)
    await tables.rows(
        "UPDATE timebell.slots SET owner = CASE WHEN slot < 100 THEN 1 WHEN slot < 250 THEN 3 END"
    )
    assert [(node.node, node.incarnation, node.slot_count) for node in await insights.nodes()] == [
        ("north", 2, 0),
        ("south", 1, 100),
    ]
    health = await insights.health()
    assert (health.node_count, health.unowned_slot_count) == (2, 156)


async def test_breakers_that_are_not_closed(insights: Insights, tables: Tables) -> None:
    await _node(tables, 5, "north", MINUTE)
    shared = {"failure_count": 5, "open_seconds": 30.0, "updated_at": NOW}
    await write(tables, "breakers", destination="smtp", open_until=NOW + SECOND, **shared)
    await write(tables, "breakers", destination="crm", open_until=NOW, probed_by=5, **shared)
    assert [(line.destination, line.state, line.node) for line in await insights.breakers()] == [
        ("crm", "half_open", "north"),
        ("smtp", "open", None),
    ]


async def test_health_of_a_new_database(insights: Insights) -> None:
    health = await insights.health()
    assert (health.oldest_due_at, health.lateness_seconds, health.last_logged_at) == (None, 0.0, None)
    assert (health.node_count, health.unowned_slot_count) == (0, 256)
    assert health.log_days_ahead in (13, 14), "the day may have changed since the database was made"
    assert health.oldest_snapshot is None


async def test_health_tells_who_waits_and_when_something_was_last_paid(
    insights: Insights, tables: Tables
) -> None:
    await enqueue(tables, run_at=ago(HOUR), started_by=7)
    await enqueue(tables, run_at=ago(HOUR), lane=2)
    await enqueue(tables, run_at=ago(MINUTE), due_at=ago(HOUR), lane=0)
    await enqueue(tables, run_at=ago(SECOND))
    await log(tables)
    health = await insights.health()
    assert (health.oldest_due_at, health.lateness_seconds) == (ago(MINUTE), 60.0)
    assert health.last_logged_at == await tables.value("SELECT max(logged_at) FROM timebell.job_log")


async def test_health_names_the_oldest_snapshot(insights: Insights, database_url: TestDatabase) -> None:
    held = await asyncpg.connect(database_url.url)
    try:
        await held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM timebell.queues")
        holder = (await insights.health()).oldest_snapshot
        assert holder is not None
        assert (holder.pid, holder.role, holder.state) == (
            held.get_server_pid(),
            "timebell",
            "idle in transaction",
        )
        assert holder.age_transactions >= 0
        assert holder.age_seconds is not None
        assert holder.age_seconds >= 0.0
        assert holder.query_started_at is not None
    finally:
        await held.close()


async def test_every_answer_is_fit_for_json(insights: Insights, tables: Tables) -> None:
    await _node(tables, 1, "south", MINUTE)
    answers: list[Any] = [
        await insights.depth(),
        await insights.lateness(),
        await insights.throughput(),
        await insights.queues(),
        await insights.nodes(),
        await insights.health(),
    ]
    assert orjson.loads(orjson.dumps(answers))[4][0]["node"] == "south"


async def _as_owner(database_url: TestDatabase, statement: str) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    try:
        await owner.execute(statement)
    finally:
        await owner.close()
